"""The training of a model: its steps and their phases, modules, operators, compiles."""
