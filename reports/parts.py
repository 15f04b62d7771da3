"""The parts of a step as pages show them: name, label, colour."""

PARTS = (
    ("compute", "compute", "#2f6f9f"),
    ("exposed_communication", "exposed communication", "#c8553d"),
    ("exposed_copy", "exposed copy", "#d9a441"),
    ("input_wait", "input wait", "#6a8f4e"),
    ("host_overhead", "host overhead", "#8d6a9f"),
    ("idle", "idle", "#d5dae0"),
)
