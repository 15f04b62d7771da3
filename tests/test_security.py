"""Nothing that was read is run, nothing listens for everybody, files have the user's umask, secrets stay out of results."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "toy"))
import toy_stub

from tfscale.suite.doctor.findings import Finding
from tfscale.suite.doctor.security import security
from tfscale.suite.sources.here import here

PRODUCT = ("harness.py", "suite", "workloads", "reports")
TREE = (*PRODUCT, "tests")
MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
"""What they load runs as code."""
BUILTINS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "yaml.Loader", "yaml.UnsafeLoader",
    "tempfile.mktemp", "pd.read_pickle", "pandas.read_pickle",
}  # fmt: skip
EVERYWHERE = {"0.0.0.0", "::"}
KNOWN = {
    ("suite/launchers/ports.py", "0.0.0.0"): "binds to see whether a port is free, and never listens",
    ("suite/sources/identities.py", "0.0.0.0"): "addresses that name no host, and are not redacted",
    ("suite/sources/identities.py", "::"): "the same",
}
MARK = "s3cr3t"


def complaints(tree: ast.AST) -> Iterator[str]:
    """What is wrong in one parsed file, whoever wrote it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ATTRIBUTES:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
        yield f"calls {node.func.id}"
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if keywords.get("shell", "False") != "False":
        yield f"shell={keywords['shell']}"
    called = ast.unparse(node.func)
    if (called == "np.load" and keywords.get("allow_pickle") != "False") or keywords.get("allow_pickle") == "True":
        yield f"{called} may unpickle"
    if called in ("os.open", "os.fdopen") and len(node.args) > 2 and ast.unparse(node.args[2]) not in ("438", "511"):
        yield f"{called} with mode {ast.unparse(node.args[2])}: leave it to the umask (0o666)"


def sockets(tree: ast.AST) -> Iterator[str]:
    """Addresses that stand for every interface."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in EVERYWHERE:
            yield str(node.value)
        if isinstance(node, ast.Tuple) and node.elts and ast.unparse(node.elts[0]) == "''" and len(node.elts) == 2:
            parent = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and node in call.args]
            yield from (ast.unparse(call) for call in parent if ast.unparse(call.func).endswith(("bind", "server")))


def parsed(root: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    for part in parts:
        files = [root / part] if part.endswith(".py") else sorted((root / part).rglob("*.py"))
        assert files, part
        for file in files:
            yield str(file.relative_to(root)), ast.parse(file.read_text(encoding="utf-8"))


def test_nothing_that_was_read_can_be_run(root: Path) -> None:
    found = [(name, words) for name, tree in parsed(root, TREE) for words in complaints(tree)]
    assert not found, found


def test_no_socket_of_ours_is_open_to_every_interface(root: Path) -> None:
    found = [(name, words) for name, tree in parsed(root, PRODUCT) for words in sockets(tree)]
    assert [each for each in found if each not in KNOWN] == []
    assert set(found) == set(KNOWN), "an exception that is not needed any more"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from cloudpickle import loads",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=wanted)",
        "eval(text)",
        "exec(text)",
        "yaml.load(text, Loader=yaml.SafeLoader)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "pd.read_pickle(path)",
        "os.open(path, flags, 0o644)",
    ],
)
def test_the_audit_sees_what_it_looks_for(text: str) -> None:
    assert list(complaints(ast.parse(text)))


@pytest.mark.parametrize("text", ["server.bind(('', 80))", "create_server(('', 1))", "x.bind(('0.0.0.0', 1))"])
def test_the_audit_sees_sockets(text: str) -> None:
    assert list(sockets(ast.parse(text)))
    assert not list(sockets(ast.parse("server.bind((address, 80)); join(('', 'x'))")))


@pytest.mark.system
@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_files_are_created_with_the_users_umask(umask: int, tmp_path: Path) -> None:
    suite = toy_stub.suite(tmp_path / "suite.yaml", ["good"], launch_s=30, join_s=30, first_step_s=30, step_s=30)
    suite.write_text(suite.read_text().replace("monitors: false", "monitors: [host]"))
    done = toy_stub.run(suite, tmp_path / "results", umask=umask)
    assert done.returncode == 0, done.stderr
    made = list((tmp_path / "results").rglob("*"))
    assert {path.name for path in made} >= {"record.json", "log.txt", "stacks.txt", "blocks.npz", "series.parquet"}
    wrong = [
        f"{path.name}: {path.stat().st_mode & 0o777:o}"
        for path in [tmp_path / "results", *made]
        if path.stat().st_mode & 0o777 != (0o777 if path.is_dir() else 0o666) & ~umask
    ]
    assert not wrong, wrong


@pytest.mark.system
def test_secrets_of_the_environment_and_of_a_checkout_are_nowhere_in_the_results(tmp_path: Path) -> None:
    """Passwords in variables, in URLs of variables that are kept, and in the remote of the repository it is run in."""
    suite = toy_stub.suite(tmp_path / "suite.yaml", ["good", "memory@1"], launch_s=30, join_s=30, first_step_s=30)
    secrets = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "TF_TOKEN_APP", "NCCL_API_KEY", "TF_PASSWORD", "WANDB_KEY")
    kept = {"TF_TEST_SERVER": f"https://user:{MARK}@example.org/x", "HTTPS_PROXY": f"http://user:{MARK}@127.0.0.1:9"}
    environment = toy_stub.environment(**dict.fromkeys(secrets, MARK), **kept)
    here = tmp_path / "checkout"
    for words in (["init", "-q", here], ["-C", here, "remote", "add", "origin", f"https://user:{MARK}@example.org/r"]):
        subprocess.run(["git", *map(str, words)], check=True)
    done = toy_stub.run(suite, tmp_path / "results", env=environment, cwd=here)
    assert done.returncode == 1, done.stderr  # one case fails, so that logs and failures are looked at too
    files = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert [path.name for path in files if MARK.encode() in path.read_bytes()] == []
    assert MARK not in done.stdout + done.stderr
    record = next(path for path in files if path.name == "record.json")
    assert json.loads(record.read_text())["environment"]["variables"]["TF_TEST_SERVER"] == "https://***@example.org/x"


def test_doctor_says_that_tensorflows_ports_are_open_to_all() -> None:
    (found,) = security(here())
    assert isinstance(found, Finding) and found.answer == "shown"
    assert "every interface" in found.detail and "without password" in found.detail
    assert found.fix is not None and "firewall" in found.fix
