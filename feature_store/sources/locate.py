"""Finding a source's raw files in the folder that the user named."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from feature_store.errors import BadInputError, MissingDataError, quoted
from feature_store.sources.base import SPLITS


def plain_or_gz(name: str) -> tuple[str, str]:
    """The names under which a file may lie."""
    return f"{name}.gz", name


def split_files(split: str) -> tuple[str, ...]:
    """The names that a user's file of JSON lines of one split may have."""
    names = ("val", "dev", "valid", "validation") if split == "val" else (split,)
    return tuple(file for name in names for file in plain_or_gz(f"{name}.jsonl"))


def is_there(path: Path) -> bool:
    """Whether there is such a file or folder.

    Raises:
        BadInputError: if that cannot be seen.
    """
    try:
        return path.exists()
    except OSError as error:  # no permission to look into the folder
        raise BadInputError(f"cannot read the folder: {error.strerror or error}", where=str(path)) from error


def files_there(folder: Path, names: Mapping[str, Collection[str]]) -> dict[str, list[Path]]:
    """By role, those of the names that its file may have that are there."""
    return {role: [folder / name for name in own if is_there(folder / name)] for role, own in names.items()}


def find_inputs(
    data_dir: Path, dataset: str, names: Mapping[str, Collection[str]], *, optional: Collection[str] = ()
) -> dict[str, Path]:
    """Files by role, the first of its names that is there for each.

    Args:
        dataset: name of the source, with its aspect where it has one: `beer/palate`.
        names: role -> names that its file may have.

    Raises:
        MissingDataError: if a file that is needed is not there; names the expected paths and what to do.
    """
    source, _, aspect = dataset.partition("/")
    folder = data_dir / source
    present = files_there(folder, names)
    if missing := [
        " or ".join(str(folder / name) for name in names[role])
        for role, files in present.items()
        if not files and role not in optional
    ]:
        target = f"dataset `{source}`" + (f", aspect `{aspect}`" if aspect else "")
        raise MissingDataError(
            f"{target}: no file " + "; no file ".join(missing),
            hint=_did_you_mean_parent(data_dir, source)
            + f"point `--data-dir` (or INFOCAL_DATA) at the folder that holds `{source}/`, "
            f"or download it with `python -m feature_store fetch --dataset {source} "
            f"--data-dir {data_dir}`, or try the made-up corpus with `--sample`",
        )
    return {role: files[0] for role, files in present.items() if files}


def own_files(
    name: str,
    data_dir: Path,
    others: Mapping[str, Sequence[str]],
    *,
    hint: str,
    optional: Collection[str] = (),
) -> dict[str, Path]:
    """Files of splits and others by role, in `data_dir/name/`, or in `data_dir` where that is no folder.

    Args:
        others: for each role besides the splits, the names that its file may have.
        hint: what to do where one is missing.

    Raises:
        MissingDataError: if one that is needed is not there.
        BadInputError: if a split has two files.
    """
    names = {**{split: split_files(split) for split in ("train", "val", "test")}, **others}
    own = data_dir / name
    folder = own if is_there(own) and own.is_dir() else data_dir
    present = files_there(folder, names)
    for role, files in present.items():
        if len(files) > 1 and role in SPLITS:
            raise BadInputError(
                f"{len(files)} files for the split `{role}`: {quoted(file.name for file in files)}",
                where=str(folder),
                hint="keep one, and move the other out of the folder",
            )
    if missing := [role for role, files in present.items() if not files and role not in optional]:
        wanted = "; no ".join(
            " or ".join(names[role][:2] if role in SPLITS else names[role]) for role in missing
        )
        nor = "" if folder == own else f", and no folder `{name}` in it"
        raise MissingDataError(f"dataset `{name}`: no {wanted} in {folder}{nor}", hint=hint)
    return {role: files[0] for role, files in present.items() if files}


def _did_you_mean_parent(data_dir: Path, name: str) -> str:
    return f"did you mean `--data-dir {data_dir.parent}`? otherwise " if data_dir.name == name else ""
