"""From a path, a hub id or a module to a model behind the seam."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canary.errors import CanaryError, InputError, ModelError
from canary.models.english import named_another
from canary.models.examining import believed
from canary.models.language_model import LanguageModel
from canary.models.pretrained import (
    first_line,
    load_pretrained,
    pretrained_tokenizer,
    read_config,
    wrap_pretrained,
)
from canary.models.served.endpoint import Endpoint, is_url
from canary.records.progress import phase
from canary.records.sealing import near_keywords
from canary.registry import name_cure
from canary.tokens.fast import as_tokenizer, read_tokenizer

if TYPE_CHECKING:
    from canary.workers.cluster import RayWorkers


@near_keywords
def load(
    source: Any,
    *,
    tokenizer: Any = None,
    dtype: str | None = None,
    device: str | None = None,
    factory: str | Callable[[dict[str, Any]], Any] | None = None,
    source_text: str | None = None,
    workers: RayWorkers | None = None,
    top_k: int | None = None,
    revision: str | None = None,
) -> LanguageModel:
    """A language model, whatever it was given as.

    Parameters
    ----------
    source : path, hub id, address, Endpoint, torch.nn.Module or LanguageModel
        A folder that `save_pretrained` wrote; a folder with ``config.json``,
        ``model.safetensors`` and ``tokenizer.json`` of a recurrent model, with
        `factory`; a folder that peft wrote for an adapter, whose base model is loaded
        with it; the address of an OpenAI-compatible server (``http://…``), or an
        `Endpoint` that also says how it may be asked; a `transformers` model, with
        adapters, quantised or dispatched over devices as it may be; a recurrent module
        (`canary.models.recurrent`), or one that gives logits alone;
        or a model behind the seam, returned as it is once its
        numbers have been looked at. If it holds a module, its weights are hashed again: they
        may have been trained since.
    tokenizer : tokenizer, path or dict, optional
        Needed for a module and for a server; for a folder, instead of the one in it. The dict of
        a model of characters gives each its id.
    dtype : {"float32", "bfloat16", "float16"}, optional
        The checkpoint's own unless given.
    device : str, optional
        The first accelerator there is, or the CPU, unless given. ``"auto"`` spreads the
        model over all devices and offloads what does not fit (needs accelerate).
    factory : str or callable, optional
        ``module:function`` or ``path/to/file.py:function`` that takes the parsed
        ``config.json`` and returns the module. It is the caller's own code and is run;
        nothing else is: no pickle, no remote code.
    source_text : str, optional
        What a sequence-to-sequence model reads; needed for one, and for nothing else.
    workers : RayWorkers, optional
        Workers of a cluster (`canary.workers.cluster`) that each load the model, from a
        folder at the same path on all machines or by its hub id, and compute in the place
        of this process. What comes back is a context manager, whose end is theirs.
    top_k : int, optional
        For an address: as `Endpoint(top_k=...)`, of a server that gives no log-probabilities of a
        prompt.
    revision : str, optional
        Of a hub id: a branch, tag or commit; ``load("org/model@revision")`` means the same.

    Raises
    ------
    ModelError
        If the model or its tokenizer is missing, damaged or of another kind.
    ServerError
        If a server or cluster cannot be reached, or its numbers cannot be used.
    MissingExtraError
        If there are workers, and Ray is not installed.

    Notes
    -----
    Costs one pass over the parameters (fingerprint) and about 1,800 token computations
    (the noise of its arithmetic). A module of your own is also asked a row of 256 tokens; if that
    is too long for it, eight more rows find its length limit.

    Examples
    --------
    >>> model = canary.load("./model", device="cpu")  # doctest: +SKIP
    >>> model.facts.dtype  # doctest: +SKIP
    'float32'
    """
    source = _at(revision, source, factory)
    about = {"dtype": dtype, "device": device, "factory": factory, "source_text": source_text}
    source = _at_address(source, top_k)
    if workers is not None:
        return _load_spread(source, tokenizer, workers, about)
    if isinstance(source, Endpoint):
        from canary.models.served.opening import open_endpoint

        if any(option is not None for option in about.values()):
            raise InputError(
                "dtype, device, factory and source text are for models that run here, and this "
                "one is served",
                cure="leave them out; the server decides how it computes",
                where=source.base,
            )
        return open_endpoint(source, None if tokenizer is None else as_tokenizer(tokenizer))
    if isinstance(source, str | os.PathLike):
        loaded = _loaded_from(os.fspath(source), tokenizer, about)
        return named_another(loaded) if _named_another(loaded, source, tokenizer) else loaded
    torch = sys.modules.get("torch")  # a module cannot exist before torch was imported
    if torch is not None and isinstance(source, torch.nn.Module):
        name = type(source).__name__
        if tokenizer is None:
            raise InputError(f"a {name} needs its tokenizer", cure="load(module, tokenizer=...)")
        seam = as_tokenizer(tokenizer)
        if hasattr(source, "config") and hasattr(source, "get_output_embeddings"):
            return wrap_pretrained(source, seam, name=name, source_text=source_text)
        from canary.models.recurrent import RecurrentModel

        return RecurrentModel(source, seam, name=name)
    if all(hasattr(source, name) for name in ("score", "open", "facts")):
        model: LanguageModel = source
        if torch is not None:
            from canary.models.torch_model import TorchModel

            if isinstance(model, TorchModel):
                model.refresh()
        believed(model)
        return model
    raise InputError(
        f"a model was expected, got {type(source).__name__}",
        cure="give a folder, a hub id, a torch module, or an object behind the seam "
        "(canary.models.language_model.LanguageModel)",
    )


def _loaded_from(path: str, tokenizer: Any, about: dict[str, Any]) -> LanguageModel:
    """The model of a folder, file or hub id, which knows the path if there is one."""
    loaded: Any
    factory = about["factory"]
    if factory is None:
        del about["factory"]
        loaded = load_pretrained(path, tokenizer, **about)
    else:
        loaded = _load_own(Path(path), tokenizer, about["dtype"], about["device"], factory)
    if Path(path).exists():
        loaded.folder = path
    model: LanguageModel = loaded
    return model


def _named_another(model: LanguageModel, source: Any, tokenizer: Any) -> bool:
    """Whether a folder has another tokenizer than the one that was named."""
    if tokenizer is None or not (Path(source) / "tokenizer.json").is_file():
        return False
    with suppress(CanaryError):
        own, its = read_tokenizer(source), model.tokenizer
        prints = [getattr(one, "fingerprint", None) for one in (own, its)]
        return None not in prints and prints[0] != prints[1]
    return False


def _at(revision: str | None, source: Any, factory: Any) -> Any:
    """The source at a revision: ``id@revision``."""
    if revision is None:
        return source
    if not isinstance(source, str | os.PathLike) or is_url(source) or factory is not None:
        problem = f"the revision {revision!r} was given, and no hub id"
        raise InputError(problem, cure="leave it out; only a hub id has revisions")
    return f"{os.fspath(source)}@{revision}"


def _at_address(source: Any, top_k: int | None) -> Any:
    """An address as an endpoint, anything else as it is."""
    if is_url(source):
        source = Endpoint(source)
    if top_k is None:
        return source
    if not isinstance(source, Endpoint):
        problem = f"top_k={top_k} is for a served model, and the model is no address"
        raise InputError(problem, cure="leave it out, or give the address of a server")
    return replace(source, top_k=top_k)


def _load_spread(
    source: Any, tokenizer: Any, workers: RayWorkers, about: dict[str, Any]
) -> LanguageModel:
    from canary.models.remote_model import spread_over
    from canary.workers.cluster import KeepingWorkers

    if isinstance(source, Endpoint):
        problem = "a served model is computed by its server, and workers were given"
        cure = "leave the workers out (--ray), or give the folder of the model"
        raise InputError(problem, cure=cure, where=source.base)
    factory = about["factory"]
    for name, value in {"model": source, "tokenizer": tokenizer, "factory": factory}.items():
        if not isinstance(value, str | os.PathLike) and (value is not None or name == "model"):
            problem = f"workers load the {name} themselves, and a {type(value).__name__} was given"
            cure = "give its path, a hub id, or the name of the factory"
            raise InputError(problem, cure=cure, where="load")
    if factory is None:
        seam = pretrained_tokenizer(os.fspath(source), tokenizer)
    else:
        read_config(Path(source))
        seam = read_tokenizer(source if tokenizer is None else tokenizer)
        place, _, attribute = factory.rpartition(":")
        if place.endswith(".py"):
            about = {**about, "factory": f"{_absolute(place)}:{attribute}"}
    named = {"source": _absolute(source), "tokenizer": tokenizer and _absolute(tokenizer)}
    kept = KeepingWorkers(workers, _keep, {**named, **about, "here": str(Path.cwd())})
    return spread_over(kept, seam)


def _keep(*, here: str, **about: Any) -> Any:
    """A model as a worker keeps it; modules are looked for in the folder `here` as well, last."""
    from canary.models.remote_worker import KeptModel

    if here not in sys.path:
        sys.path.append(here)
    return KeptModel(load(**about))


def _absolute(path: str | os.PathLike[str]) -> str:
    """A path as other processes find it; what is not here (a hub id) as it is."""
    return str(Path(path).resolve()) if Path(path).exists() else os.fspath(path)


def _load_own(
    folder: Path,
    tokenizer: Any,
    dtype: str | None,
    device: str | None,
    factory: str | Callable[[dict[str, Any]], Any],
) -> LanguageModel:
    """A module that the caller's factory builds, with the weights of a folder."""
    from safetensors.torch import load_file

    from canary.models.recurrent import RecurrentModel
    from canary.models.torch_support import dtype_named, pick_device

    phase(f"Loading {folder.name}")
    config = read_config(folder)
    seam = read_tokenizer(folder) if tokenizer is None else as_tokenizer(tokenizer)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        cure = "save the weights with safetensors.torch.save_file(module.state_dict(), ...)"
        raise ModelError("there is no model.safetensors", cure=cure, where=str(folder))
    with _beside(factory):
        build = _import_factory(factory) if isinstance(factory, str) else factory
        try:
            module = build(config)
            module.load_state_dict(load_file(weights))
        except Exception as error:  # the factory is the caller's own code
            problem = f"{factory} and model.safetensors do not give a model ({first_line(error)})"
            cure = "check that the factory builds the module that was saved"
            raise ModelError(problem, cure=cure, where=str(folder)) from error
    if dtype is not None:
        module = module.to(dtype_named(dtype))
    return RecurrentModel(module.to(pick_device(device)), seam, name=folder.name)


@contextmanager
def _beside(factory: object) -> Iterator[None]:
    """Look for modules in the factory's folder first, as ``python file.py``; or in this one."""
    place = factory.rpartition(":")[0] if isinstance(factory, str) else ""
    folder = str(Path(place).resolve().parent if place.endswith(".py") else Path.cwd())
    added = bool(place) and folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        if added:
            sys.path.remove(folder)


def _place_of(error: BaseException, place: str) -> str:
    """File and line of the caller's code that raised, the factory's own file if it is there."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    mine = [f for f in frames if Path(f.filename).name == Path(place).name]
    frame = (mine or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _import_factory(name: str) -> Callable[[dict[str, Any]], Any]:
    place, _, attribute = name.rpartition(":")
    cure = "name it as module:function or path/to/file.py:function"
    if not place or not attribute:
        raise InputError(f"{name!r} does not name a factory", cure=cure)
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)  # where a dataclass looks for its module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except (ImportError, OSError) as error:
        missing = (error.name if isinstance(error, ModuleNotFoundError) else None) or place
        if not f"{place}.".startswith(f"{missing}."):
            cure = f"install {missing}, or put its file beside that of the factory"
        raise InputError(f"the factory {name!r} cannot be imported ({error})", cure=cure) from error
    except (Exception, SystemExit) as error:  # the file is the caller's own code
        kind, said = type(error).__name__, str(error).strip().partition("\n")[0]
        cure = 'put what runs there, such as a training, under if __name__ == "__main__":'
        cure = "correct the file" if isinstance(error, SyntaxError) else cure
        raise InputError(
            f"the factory {name!r} raised {kind} on import{said and f' ({said})'}",
            cure=cure,
            where=_place_of(error, place),
        ) from error
    factory: Callable[[dict[str, Any]], Any] | None = getattr(module, attribute, None)
    if not callable(factory):
        there = [name for name, thing in vars(module).items() if callable(thing)]
        raise InputError(f"{place} has no function {attribute}", cure=name_cure(attribute, there))
    return factory
