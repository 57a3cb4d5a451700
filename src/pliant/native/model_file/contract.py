"""The model file's contract: what it must have, and a check of all of it before anything is launched.

    class Net(nn.Module) ...           named by --model-class; or custom_model()
    loss(labels, predictions)          the mean over the batch, or one value per record
    optimizer(model)                   a torch.optim.Optimizer
    dataset_fn(dataset, mode, metadata)   also as ``feed``; yields (features, label)
    eval_metrics_fn()                  {name: metric}
    callbacks()                        a list
    PredictionOutputsProcessor         with process(predictions, worker_id)
    custom_data_reader(source, **options)   a DataReader, or what ``pliant.data`` can adapt
    learning_rate_schedule(optimizer)  a torch scheduler; or learning_rate_schedule(step), which returns the rate

Only the model, ``loss``, ``optimizer`` and ``dataset_fn`` are needed to train. Problems are reported together, each with its line.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pliant.core.errors import InvalidRequest, PliantError
from pliant.native.callbacks import CALLBACKS
from pliant.native.model_file.module_files import described, load_module, location_of, parse

NEEDED = {
    "train": ("loss", "optimizer", "dataset_fn"),
    "evaluate": ("dataset_fn",),
    "predict": ("dataset_fn",),
}
SIGNATURES = {  # what each is called with
    "loss": ("labels", "predictions"),
    "optimizer": ("model",),
    "dataset_fn": ("dataset", "mode", "metadata"),
    "eval_metrics_fn": (),
    "callbacks": (),
    "custom_model": (),
    "custom_data_reader": ("source",),
    "learning_rate_schedule": ("optimizer",),  # or the number of the update
}
ALIASES = {"dataset_fn": ("feed",), "learning_rate_schedule": ("scheduler", "learning_rate_scheduler")}
_PREDICTIONS = {"predictions", "prediction", "preds", "pred", "outputs", "output", "logits", "y_pred"}
_LABELS = {"labels", "label", "targets", "target", "y_true"}


@dataclass
class ModelFile:
    path: Path
    module: ModuleType
    model_class: str
    lines: Mapping[str, int]  # of the names that the file defines
    model_params: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """What the file has under a name of the contract; None if it has not."""
        return getattr(self.module, self.name_of(name), None)

    def name_of(self, name: str) -> str:
        return next((n for n in (name, *ALIASES.get(name, ())) if hasattr(self.module, n)), name)

    def where(self, name: str) -> str:
        return f"{self.path}:{self.lines.get(self.name_of(name), 1)}"

    def make_model(self) -> Any:
        maker = getattr(self.module, self.model_class) if self.model_class else self.module.custom_model
        return self.call(maker, **self.model_params)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function of the file; a failure names the line where it happened."""
        return self.call_as(getattr(function, "__name__", str(function)), function, *args, **options)

    def call_as(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The same for what is known to the user by another name."""
        try:
            return function(*args, **options)
        except PliantError:
            raise  # it names the problem and the line
        except Exception as error:  # the user's function
            raise InvalidRequest(f"{location_of(error, self.path)}: {name} failed: {described(error)}") from error

    def make_optimizer(self, model: Any) -> Any:
        import torch

        made = self.call(self.get("optimizer"), model)
        several = made if isinstance(made, list | tuple) else [made]
        if not several or not all(isinstance(one, torch.optim.Optimizer) for one in several):
            raise InvalidRequest(
                f"{self.where('optimizer')}: optimizer(model) must return a torch.optim.Optimizer; it returns {_a(made)}",
                hint="for a Keras model too: torch.optim.Adam(model.parameters())",
            )
        if any(isinstance(one, torch.optim.LBFGS) for one in several):
            raise InvalidRequest(
                f"{self.where('optimizer')}: LBFGS computes the loss several times per step, but native training computes it once"
            )
        return made

    def make_callbacks(self) -> list[Any]:
        function = self.get("callbacks")
        made = self.call(function) if function is not None else []
        if not isinstance(made, list | tuple):
            raise InvalidRequest(f"{self.where('callbacks')}: callbacks() must return a list; it returns {_a(made)}")
        if problems := [problem for one in made for problem in _callback_problems(self, one)]:
            raise InvalidRequest("invalid callback:\n  " + "\n  ".join(problems))
        return list(made)


def load_model_file(
    path: str | os.PathLike[str],
    model_class: str = "",
    *,
    task: str = "train",
    model_params: Mapping[str, Any] | None = None,
) -> ModelFile:
    """Import a model file and check that it has what the task needs, with the right signatures."""
    os.environ.setdefault("KERAS_BACKEND", "torch")  # before the file imports keras
    file = Path(path)
    lines = _lines(parse(file))
    found = ModelFile(file, load_module(file), model_class, lines, dict(model_params or {}))
    problems = [*_model_problems(found), *_missing(found, task), *_signature_problems(found)]
    if problems:
        raise InvalidRequest(
            "invalid model file:\n  " + "\n  ".join(problems),
            hint="create a valid file with `pliant zoo init`; docs/native-training.md describes the contract",
        )
    return found


def _lines(tree: ast.Module) -> dict[str, int]:
    lines: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines[node.name] = node.lineno
        elif isinstance(node, ast.Assign):
            lines.update({t.id: node.lineno for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines[node.target.id] = node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            lines.update({alias.asname or alias.name: node.lineno for alias in node.names})
    return lines


def _model_problems(file: ModelFile) -> list[str]:
    name = file.model_class
    own = file.module.__name__
    classes = [n for n, value in vars(file.module).items() if inspect.isclass(value) and value.__module__ == own]
    have = f"; classes in it: {', '.join(classes)}" if classes else ""
    if not name:
        if hasattr(file.module, "custom_model"):
            return []
        return [f"{file.path}:1: no model: define custom_model(), or pass a class with --model-class{have}"]
    maker = getattr(file.module, name, None)
    if maker is None:
        return [f"{file.path}:1: class {name} not found{have}"]
    if not callable(maker):
        return [f"{file.path}:{file.lines.get(name, 1)}: {name} is {_a(maker)}, not a class"]
    if problem := _cannot_take(maker, (), file.model_params):
        return [f"{file.path}:{file.lines.get(name, 1)}: {name} cannot be constructed: {problem} (see --model-params)"]
    return []


def _missing(file: ModelFile, task: str) -> list[str]:
    problems = []
    for name in NEEDED[task]:
        if file.get(name) is None:
            also = "".join(f" (or {alias})" for alias in ALIASES.get(name, ()))
            problems.append(f"{file.path}:1: {name}({', '.join(SIGNATURES[name])}){also} is missing")
    if task == "evaluate" and file.get("eval_metrics_fn") is None and file.get("loss") is None:
        problems.append(f"{file.path}:1: eval_metrics_fn() is missing, and loss(labels, predictions) too")
    return problems


def _signature_problems(file: ModelFile) -> list[str]:
    problems = []
    for name, wanted in SIGNATURES.items():
        value = file.get(name)
        if value is None:
            continue
        called = f"{file.name_of(name)}({', '.join(wanted)})"
        if not callable(value):
            problems.append(f"{file.where(name)}: {file.name_of(name)} is {_a(value)}; it must be a function {called}")
        elif problem := _cannot_take(value, wanted, {}):
            problems.append(f"{file.where(name)}: it is called as {called}, but {problem}")
        elif name == "loss" and _is_swapped(value):
            problems.append(f"{file.where(name)}: loss must take labels first, then predictions")
    processor = file.get("PredictionOutputsProcessor")
    if processor is not None:
        problems += _processor_problems(file, processor)
    return problems


def _processor_problems(file: ModelFile, processor: Any) -> list[str]:
    where = file.where("PredictionOutputsProcessor")
    process = getattr(processor, "process", None)
    if not inspect.isclass(processor) or not callable(process):
        return [f"{where}: PredictionOutputsProcessor must be a class with process(self, predictions, worker_id)"]
    if problem := _cannot_take(processor, (), {}):
        return [f"{where}: it is constructed without arguments, but {problem}"]
    more = {"ids": ()} if "ids" in inspect.signature(process).parameters else {}
    if problem := _cannot_take(process, ("self", "predictions", "worker_id"), more):
        return [f"{_line_of(file, process)}: it is called as process(predictions, worker_id), but {problem}"]
    return []


def _callback_problems(file: ModelFile, callback: Any) -> list[str]:
    found = {name: getattr(callback, name) for name in CALLBACKS if hasattr(callback, name)}
    if not found:
        return [f"{file.where('callbacks')}: {_a(callback)} has none of {', '.join(CALLBACKS)}"]
    problems = []
    for name, method in found.items():
        if problem := _cannot_take(method, CALLBACKS[name], {}):
            called = f"{name}({', '.join(CALLBACKS[name])})"
            problems.append(f"{_line_of(file, method)}: it is called as {called}, but {problem}")
    return problems


def _line_of(file: ModelFile, function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else f"{file.path}:1"


def _cannot_take(function: Any, args: Sequence[str], options: Mapping[str, Any]) -> str:
    """Why it cannot be called with these arguments; empty if it can, or if that is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        return f"it takes {signature}: {error}"
    return ""


def _is_swapped(loss: Callable[..., Any]) -> bool:
    try:
        names = list(inspect.signature(loss).parameters)[:2]
    except (TypeError, ValueError):
        return False
    return len(names) == 2 and names[0].lower() in _PREDICTIONS and names[1].lower() in _LABELS


def _a(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
