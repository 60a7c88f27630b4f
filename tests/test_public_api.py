from __future__ import annotations

import inspect

import nitro_repl

PUBLIC = [
    "ArrayLoader",
    "Concat",
    "DataError",
    "Device",
    "EditError",
    "Experiment",
    "ExperimentError",
    "FieldError",
    "GraphConst",
    "HookError",
    "HostFieldError",
    "MagicError",
    "Max",
    "Mean",
    "MetricError",
    "Min",
    "ModelError",
    "Nitro",
    "NitroError",
    "NonFiniteError",
    "ProgramError",
    "Run",
    "RunError",
    "ScheduleError",
    "SettingError",
    "StaleError",
    "Sum",
    "SwapError",
    "compare",
    "current",
    "field",
    "load_ipython_extension",
    "program",
    "programs",
    "runs",
    "unload_ipython_extension",
]


def test_the_public_names_are_these_and_no_others():
    found = {
        name
        for name, value in vars(nitro_repl).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert sorted(found - {"Any", "annotations"}) == PUBLIC


def test_the_names_for_tests_of_users_are_these():
    found = {name for name in vars(nitro_repl.testing) if not name.startswith("_")}
    assert sorted(found - {"annotations"}) == [
        "Compiles",
        "Edit",
        "count_compiles",
        "edit",
    ]
    for name in ("Compiles", "Edit", "count_compiles", "edit"):
        assert inspect.getdoc(getattr(nitro_repl.testing, name)), name


def test_every_public_class_and_function_is_documented():
    for name in PUBLIC:
        value = getattr(nitro_repl, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


def test_every_error_of_the_tree_is_public():
    def below(cls):
        yield cls
        for child in cls.__subclasses__():
            yield from below(child)

    ours = {c.__name__ for c in below(nitro_repl.NitroError) if "nitro" in c.__module__}
    assert ours <= set(PUBLIC)
