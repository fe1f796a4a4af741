"""The plan of a search, which `--dry-run` prints."""

from collections.abc import Sequence

from feature_store.wording import counted
from pipeline.base.storage import Location
from pipeline.base.uris import without_password
from pipeline.cli import planning
from pipeline.reporting.results import setting
from pipeline.study import cluster, race
from pipeline.study.study_settings import StudySettings
from pipeline.training import data_options
from pipeline.training.settings import RunSettings
from search_spaces import lookup
from search_spaces.criteria import RELATIVE, RIVAL, paper_bar
from search_spaces.space import Space, num_points

_EMPTY: tuple[object, ...] = ("", None, (), [], {})
"""Values of hyper-parameters that say nothing."""


def plan(
    prepared: StudySettings, directory: Location, uri: str, address: str | None, data: Sequence[str]
) -> str:
    """What would be done, for `--dry-run`.

    Args:
        uri: where MLflow tracks; its password is left out.
        data: the lines about the data files.
    """
    run = prepared.run
    space = prepared.space
    target = data_options.target_of_run(run)
    lines = [
        f"study        {prepared.name}  ({run.method} on {target})",
        f"results      {directory}",
        f"tracking     {without_password(uri)}",
        *data,
        *_criterion(run),
        f"trials       {_trials(prepared.num_trials, space)}, each of {counted(run.num_epochs, 'epoch')}",
        *_seeds(prepared),
        f"GPUs         {_gpus(prepared, address)}",
        f"sampler      {prepared.sampler}, seed {run.seed}",
        *_first(prepared),
        "\nsearched",
    ]
    width = max(map(len, run.config().to_dict()))
    before = ""
    for one in space:
        lines.append(f"  {one.name:<{width}} {one}  ({'same reason' if one.why == before else one.why})")
        before = one.why
    lines.append("\nfixed")
    searched = {one.name for one in space}
    # what has no value, such as the folder of a pretrained encoder, is not fixed at one
    fixed = {name: value for name, value in run.config().to_dict().items() if value not in _EMPTY}
    lines += [f"  {name:<{width}} {value}" for name, value in fixed.items() if name not in searched]
    return "\n".join(lines)


def _criterion(run: RunSettings) -> list[str]:
    """The criterion in the plan, with what has to be measured for it."""
    lines = [f"criterion    {planning.criterion_in_words(run)}"]
    if run.criterion_kind != RELATIVE:
        return lines
    if run.rival:
        return [*lines, f"             {run.criterion.why}"]
    name, fixed = lookup.title(RIVAL), paper_bar(run.criterion)
    epochs = counted(run.num_epochs, "epoch")
    measured = (
        f"{name} is trained first on the same features for {epochs}; the result is kept beside the features"
    )
    beside = "" if fixed is None else f"; the paper's threshold: {fixed:g}"
    return [*lines, f"             {measured}{beside}"]


def _first(prepared: StudySettings) -> list[str]:
    """The points that are tried first, a line each."""
    points = prepared.first_points
    if not points:
        why = (
            "the file has no table `[[first]]`"
            if prepared.own_space
            else "the published best values are outside this space"
        )
        return [f"first        none: {why}"]
    lines = [", ".join(f"{name} = {setting(value, 6)}" for name, value in point.items()) for point in points]
    return [f"first        {lines[0]}", *(f"             {line}" for line in lines[1:])]


def _seeds(prepared: StudySettings) -> list[str]:
    """With how many seeds the best trials are trained, where with more than one."""
    if prepared.is_raced:
        number = min(race.ROUNDS[0][0], prepared.num_trials)
        if number < 2:
            return [
                "seeds        there is only one trial, so nothing to compare: `--seeds auto` has no effect"
            ]
        more = counted(race.most_trainings(prepared.num_trials), "further training")
        return [
            f"seeds        the best {counted(number, 'trial')} are trained with further seeds and compared "
            f"by their mean: at most {more}"
        ]
    return [f"seeds        {prepared.num_seeds} for the best trial"] if prepared.num_seeds > 1 else []


def _trials(asked: int, space: Space) -> str:
    there = num_points(space)
    if there is None or there >= asked:
        return str(asked)
    return f"{there} (the space has only {counted(there, 'point')}; asked for: {asked})"


def _gpus(prepared: StudySettings, address: str | None) -> str:
    """What GPUs the trials get, as far as is known before the study starts."""
    if prepared.packs_gpus and not prepared.chooses_gpus:
        return (
            "the GPU memory of one trial is measured; then each GPU runs as many trials as fit into its "
            "memory"
        )
    if not prepared.chooses_gpus:
        device = f" (device {prepared.run.device})"
        if prepared.run.device.startswith("cuda") and not prepared.gpus_per_trial:
            return f"every trial on {prepared.run.device}, as many at once as there are cores for"
        return (
            f"{prepared.gpus_per_trial:g} for each trial{device}"
            if prepared.gpus_per_trial
            else f"none{device}"
        )
    if not cluster.is_local(address):
        return (
            "GPUs of the cluster; the GPU memory of one trial is measured, then each GPU runs as many "
            "trials as fit into its memory. Trials run on the CPU if there is no usable GPU (checked when "
            "the search starts)"
        )
    num_gpus = cluster.num_local_gpus()
    return (
        f"{num_gpus}; the GPU memory of one trial is measured, then each GPU runs as many trials as fit"
        if num_gpus
        else "none here: trials run on the CPU"
    )
