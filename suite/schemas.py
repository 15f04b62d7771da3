"""The JSON Schemas of every document that is stored or printed. It imports the documents' forms and nothing that reads."""

from typing import Any

from pydantic import BaseModel

from tfscale.suite.benchforms import COLLECTIVES_SCHEMA, BenchCollectives
from tfscale.suite.compare.forms import PAIRING_SCHEMA, Comparison, Pairing
from tfscale.suite.compare.forms import SCHEMA as COMPARE_SCHEMA
from tfscale.suite.detecting import SCHEMA as DETECT_SCHEMA
from tfscale.suite.detecting import Detected
from tfscale.suite.doctor.findings import SCHEMA as DOCTOR_SCHEMA
from tfscale.suite.doctor.findings import Examination
from tfscale.suite.environment.diff import Diff
from tfscale.suite.formats.forms import (
    EXPORT_SCHEMA,
    IMPORT_SCHEMA,
    IMPORTED_SCHEMA,
    ExportAnswer,
    ImportAnswer,
    Imported,
)
from tfscale.suite.nightly.forms import SCHEMA as GATE_SCHEMA
from tfscale.suite.nightly.forms import Gate
from tfscale.suite.profiling.schema import SCHEMA as TRACE_SCHEMA
from tfscale.suite.profiling.schema import TraceShape
from tfscale.suite.record import (
    CASE_SCHEMA,
    CURVE_SCHEMA,
    RECORD_SCHEMA,
    RECOVERY_SCHEMA,
    RUN_SCHEMA,
    CaseResult,
    Curve,
    Failure,
    Record,
    RecoveryResult,
    Run,
)
from tfscale.suite.rendering import SCHEMA as RENDERED_SCHEMA
from tfscale.suite.rendering import Rendered

MODELS: dict[str, type[BaseModel]] = {
    TRACE_SCHEMA: TraceShape,
    RECORD_SCHEMA: Record,
    CASE_SCHEMA: CaseResult,
    RUN_SCHEMA: Run,
    CURVE_SCHEMA: Curve,
    RECOVERY_SCHEMA: RecoveryResult,
    "tfscale.failure/1": Failure,
    "tfscale.environment_diff/1": Diff,
    DETECT_SCHEMA: Detected,
    DOCTOR_SCHEMA: Examination,
    GATE_SCHEMA: Gate,
    COLLECTIVES_SCHEMA: BenchCollectives,
    RENDERED_SCHEMA: Rendered,
    IMPORTED_SCHEMA: Imported,
    EXPORT_SCHEMA: ExportAnswer,
    IMPORT_SCHEMA: ImportAnswer,
    COMPARE_SCHEMA: Comparison,
    PAIRING_SCHEMA: Pairing,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Schema name -> JSON Schema."""
    return {name: {"$id": name, **model.model_json_schema(by_alias=True)} for name, model in MODELS.items()}
