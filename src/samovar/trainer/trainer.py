"""`PytorchTrainer`: train, fit, load. Puts together what one training needs, and keeps the net in memory."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import torch

from samovar import seeds
from samovar.config.values import suggest
from samovar.data import ArrayDataset, BatchMaker, Split, split_examples
from samovar.data.batches import as_arrays, check_dataset
from samovar.data.examples import as_tensor
from samovar.errors import BadInput
from samovar.nets import AveragedNet, TablePreprocessor, TabularTask, TrainingRules
from samovar.results import OpenResult
from samovar.runner import Callback
from samovar.trainer.criteria import make_criterion
from samovar.trainer.estimator import with_options
from samovar.trainer.frames import FrameInputs, is_frame, read_finite, take_rows, take_target
from samovar.trainer.inputs import InputScales, check_arrays, find_scales
from samovar.trainer.net_file import RUN_FILE, base_path, choose_folder, keep_earlier
from samovar.trainer.options import Options, RunOptions
from samovar.trainer.report import Report, show
from samovar.trainer.stored import NUM_MEMBERS, NetBuilder, StoredNet
from samovar.trainer.targets import TrainingSubset
from samovar.trainer.training import EpochHook, Training
from samovar.training.facade import check_callbacks, open_facade


class PytorchTrainer(StoredNet):
    """Trains a net in one call, with a validation split, early stopping, restarts and crash recovery.

    **A table needs no net.** `fit` takes rows and what to predict: an array, a series, or the name of a column. Text,
    categories, dates, booleans and missing values are taken as they are.

    ```python
    import numpy as np
    import pandas as pd
    from samovar import PytorchTrainer

    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"size": generator.uniform(20, 90, 600), "city": generator.choice(["Oslo", "Rome"], 600)})
    frame["price"] = frame["size"] * np.where(frame["city"] == "Oslo", 50, 30)

    trainer = PytorchTrainer().fit(frame, "price", n_epochs=5)
    print(trainer.predict(frame[:3]), trainer.score(frame, "price"))
    ```

    The net and its preprocessing are those of `samovar.nets`. With `fast=True` it is trained several times as fast and
    predicts a little worse. `predict` gives numbers or classes, as the target has them, `predict_proba` probabilities.

    **A net of your own** comes from a function, the builder:

    ```python
    from torch import nn


    def build(num_inputs, width):
        return nn.Sequential(nn.Linear(num_inputs, width), nn.ReLU(), nn.Linear(width, 1))


    x = np.random.randn(1000, 5)
    y = x[:, :1] * 3 - x[:, 1:2]

    trainer = PytorchTrainer(build, [5, 32])
    trainer.fit(x, y, name="model", n_epochs=20)  # the best net is in memory and in model.pt
    predictions = trainer.predict(x)

    same = PytorchTrainer.load("model", net_builder=build)
    ```

    **Data.** `fit` takes arrays, tensors and frames; `train` takes a data set. Floats of arrays and frames are
    standardised by what the training part holds, unless you pass `scale_inputs=False`. The net gets the numbers,
    booleans and dates of a frame as one matrix, with the mean for missing values; text and categories follow as a
    second input, with a code per value and 0 for missing and unseen ones. Infinite inputs, and missing ones of arrays,
    are refused with their row and column.

    A data set has `__len__`, and `__getitem__` that returns `(input, target)` or `(input, weight, target)`. Several
    inputs are a list; the net gets them as positional arguments. Optionally it has:

    - `collate_fn(items)`, which joins examples into a minibatch.
    - `regression_flags` and `scale`, which describe the target; see `MixedCriterion`.
    - `switch_state()`, which is called before each minibatch: minibatch k is made after k + 1 calls, whatever
      `n_workers` is.

    ```python
    import torch


    class Waves(torch.utils.data.Dataset):
        def __len__(self):
            return 300

        def __getitem__(self, index):
            noise = 0.1 * torch.randn(1)  # random augmentation is reproducible too
            x = torch.tensor([index / 30.0])
            return x + noise, x.sin()


    trainer = PytorchTrainer(nn.Linear, [1, 1])
    report = trainer.train(Waves(), "waves", batch_size=32, n_epochs=5, seed=1)
    print(report.best_epoch, report.best_loss)
    ```

    **Training.** Each epoch trains on one part of the examples and measures the loss on the rest. Every new lowest
    validation loss saves the net as `<name>.pt`. Progress is a validation loss more than 0.5 % below the one at the
    last progress. Without it, the optimizer is restarted, the learning rate is cut, and after `patience` epochs the
    training ends. An empty file `stop_<name>` ends it after the current epoch. In the end, the best net is in memory,
    or the average of the best ones if it is better; another `train` continues from it. Epochs are counted from 0. (The
    net for tables is not restarted, and any lower loss is progress; each `fit` starts a new one.)

    **After a crash.** `train` and `fit` with a name and `resume=True` continue its newest training, and end with the
    same bits as one that was never interrupted. They need the same data and arguments. If the training is finished,
    they only load the net, so a script with `resume=True` can be run any number of times:

    ```python
    trainer.train(Waves(), "waves", batch_size=32, n_epochs=5, seed=1, resume=True)  # nothing left to do
    ```

    **Files.** `<name>.pt` is the best net and `<name>_avg.pt` the average of the best ones; both hold weights and JSON,
    no code. Each training also has a result directory, `<name>/0`, `<name>/1`, …, with metrics, TensorBoard events, the
    learning curve, snapshots and the net it ended with. `fit` without a name writes nothing.

    **Loading.** `PytorchTrainer.load(name, device="auto", net_builder=None, net_build_args=None, criterion=None,
    run=None)` returns a new trainer; `run=0` loads the net of the first training of that name, whatever was trained
    later. Without `net_builder`, it uses the one that wrote the file in this process; files never name code.
    `trainer.load(name, device=None, criterion=None, run=None)` loads into a trainer that you have. Pass `criterion` if
    you trained with your own.

    **With scikit-learn.** A trainer is an estimator: `cross_val_score`, pipelines and searches take it. The constructor
    takes the arguments of `train`, and `get_params` and `set_params` know them:

    ```python
    from sklearn.model_selection import cross_val_score

    quick = PytorchTrainer(fast=True, n_epochs=2, verbose=False)
    print(cross_val_score(quick, frame[["size", "city"]], frame["price"], cv=3))
    ```

    **Your own code between epochs.** `epoch_hook` is a function of the trainer. `callbacks` are `samovar.Callback`
    objects, which see losses and metrics, log numbers of their own, end the training, and have a state that survives a
    crash:

    ```python
    from samovar import Callback, EarlyStopping


    class GoodEnough(Callback):
        def on_uri_end(self, run):
            (valid,) = run.metrics["evaluation"]
            if valid["loss"] < 0.1:
                raise EarlyStopping("the validation loss is below 0.1")


    trainer.train(Waves(), "early", n_epochs=5, callbacks=[GoodEnough()])
    ```

    **Output.** With `verbose`, a line per epoch, the report and a progress bar go to standard error; the bar is drawn
    on a terminal, and in a notebook that has ipywidgets. If you set up `logging` with level INFO, the lines go there.

    Args:
        net_builder: A function or class that returns a new net. It is called once, when the net is first needed.
            Without it, `fit` uses the net for tables.
        net_build_args: The arguments of `net_builder`: a list, or a dict of keyword arguments.
        device: `"auto"` is CUDA if there is one; or the name of a device of torch.
        **options: Arguments of `train`, and `fast` of `fit`, for calls that do not give their own.

    Attributes:
        net: The net in memory.
        criterion: The criterion of the last training, or of the file that was loaded.
        report: The report of the last training; None before.

    Raises:
        BadInput: `net_builder` cannot be called, there is no such device, or an option is unknown.
    """

    def __init__(
        self,
        net_builder: NetBuilder | None = None,
        net_build_args: Any = (),
        device: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(net_builder, net_build_args, device, **options)
        self.report: Report | None = None

    # Training

    @with_options
    def train(
        self,
        dataset: Any,
        name: str | Path | None = "pytorch_model",
        batch_size: int | None = None,
        criterion: Any = "auto",
        n_epochs: int | None = None,
        train_prop: float = 0.9,
        learning_rate: float | None = None,
        n_workers: int = 0,
        verbose: bool = True,
        epoch_hook: Callable[[Any], None] | None = None,
        repeat_train: int = 1,
        repeat_valid: int = 1,
        n_best_nets: int = 1,
        with_restarts: bool | None = None,
        shuffle: bool = True,
        *,
        resume: bool = False,
        seed: int | None = None,
        patience: int | None = None,
        clip_norm: float | None = None,
        deterministic: bool = False,
        optimizer: Callable[..., torch.optim.Optimizer] | None = None,
        snapshot_seconds: float = 30.0,
        callbacks: Sequence[Callback] = (),
        scale_inputs: bool | None = None,
    ) -> Report:
        """Train on one part of a data set and validate on the rest.

        Args:
            dataset: A `torch.utils.data.Dataset`, or anything like it; see the class for what it may have.
            name: Where to write: `<name>.pt`, `<name>_avg.pt` and the directories `<name>/0`, `<name>/1`, …; with None,
                nothing is written.
            batch_size: Examples per minibatch; by default a power of two from 16 to 256, about a hundredth of the
                training part.
            criterion: The loss. `"auto"` is `MixedCriterion`, which is made for the targets it finds. A class is called
                with the training part; an object is used as it is. See `samovar.trainer.Criterion` for what it needs.
            n_epochs: The most epochs to train; by default 50. For the net for tables 200, and
                fewer for large tables: 4 million examples in all, but at least 20 epochs.
            train_prop: The share of examples to train on; the others validate.
            learning_rate: The initial learning rate; by default 0.001 for minibatches of 16, and more for larger ones.
            n_workers: Processes that make minibatches; with 0, this one does. It does not change the result.
            verbose: Show a line per epoch, a progress bar and the report.
            epoch_hook: A function of this trainer, called after each epoch.
            repeat_train: How many times an epoch goes through the training part.
            repeat_valid: How many times it goes through the validation part, for data sets with random augmentation.
            n_best_nets: How many nets to keep. If more than one, those within 10 % of the lowest loss are averaged, and
                the average predicts if its validation loss is lower.
            with_restarts: Restart the optimizer at the initial rate when there is no progress, before cutting the rate;
                by default true, except for the net for tables.
            shuffle: Choose the parts by a fixed hash of the index; otherwise the tail is the validation part.
            resume: Continue the newest directory of this name. If it is finished, only load its net.
            seed: The seed of everything random. By default it is drawn, and kept with the run.
            patience: Epochs without progress until training ends; by default 15 % of `n_epochs`, and at least 3.
            clip_norm: Scale gradients down to this norm. In the first five steps it is at most 1.
            deterministic: Let torch use only algorithms that give the same bits each time.
            optimizer: Called as `optimizer(parameters, lr=learning_rate)`, and wrapped in `Lookahead`; by default
                `torch.optim.RAdam`. Use `functools.partial` for more arguments.
            snapshot_seconds: The least time between snapshots, which are taken at the end of an epoch.
            callbacks: `samovar.Callback` objects; a URI is an epoch. At its end they are called after validation and
                the saving of the best net, and before logs, rate cuts, `epoch_hook`, stop rules and the snapshot. So
                they see `run.metrics["evaluation"]`, and numbers that they put into `run.metrics` are logged. Their
                state is in snapshots: pass the same ones to resume.
            scale_inputs: Standardise floats by the training part; by default for arrays and frames only. The scales are
                kept with the net, and a net that is trained further keeps them.

        Returns:
            The history of losses, the best epoch and the paths; also kept as `report`.

        Raises:
            BadInput: An argument or the data set is wrong.
            Conflict: With `resume`, the run has other arguments or other callbacks.
            Diverged: The validation loss was not finite in any epoch.
            Stopped: A callback called `run.stop`; `resume=True` continues.

        Example:
            ```python
            import numpy as np
            import torch
            from samovar import PytorchTrainer
            from samovar.data import ArrayDataset

            x = np.random.randn(200, 3)
            trainer = PytorchTrainer(torch.nn.Linear, [3, 1])
            report = trainer.train(ArrayDataset(x, x.sum(1)), "sum", batch_size=32, n_epochs=5, seed=0)
            print(report)
            ```
        """
        run_options = RunOptions(n_workers, verbose, snapshot_seconds)
        users = check_callbacks(callbacks)
        check_dataset(dataset)
        if resume and name is None:
            raise BadInput("resume=True needs name, the name of the training to resume")
        is_table = self._is_for_table(criterion, optimizer)
        split = split_examples(len(dataset), train_prop, shuffle)
        arrays = as_arrays(dataset)
        if arrays is not None:
            check_arrays(arrays)
        is_scaled = (arrays is not None and not is_table) if scale_inputs is None else scale_inputs
        rules = TrainingRules.for_rows(len(split.train)) if is_table else None
        given = {
            "batch_size": batch_size, "n_epochs": n_epochs, "train_prop": train_prop, "learning_rate": learning_rate,
            "repeat_train": repeat_train, "repeat_valid": repeat_valid, "n_best_nets": n_best_nets,
            "with_restarts": with_restarts, "shuffle": shuffle, "patience": patience, "clip_norm": clip_norm,
            "deterministic": deterministic, "scale_inputs": is_scaled,
        }  # fmt: skip
        options = Options.choose(given, len(split.train), rules)
        path = None if name is None else base_path(name)
        folder, kept = (None, {}) if path is None else choose_folder(path, resume)
        if seed is not None:
            seeds.set_seed(seed)
        run_seed = seed if seed is not None else kept["seed"] if "seed" in kept else seeds.draw_seed()
        net = self.net  # before anything else draws random numbers
        self.criterion = make_criterion(criterion, TrainingSubset(dataset, split.train))
        maker = BatchMaker(dataset, run_seed)
        self._scales = self._choose_scales(scale_inputs, is_scaled, maker, split)
        if rules is not None:
            rules = options.apply_to(rules)
            net = self._net = AveragedNet(net, rules.average_decay).to(self.device)
        training = Training(
            net, self.criterion, self._scales, maker, split, options, run_options, self.device, path, self._describe,
            optimizer or torch.optim.RAdam, rules,
        )  # fmt: skip
        report = self._run(training, folder, users, None if epoch_hook is None else EpochHook(self, epoch_hook))
        if isinstance(self._net, AveragedNet):
            self._net = self._net.average
        self.report, self._is_trained = report, True
        if verbose:
            show(str(report))
        return report

    def _is_for_table(self, criterion: Any, optimizer: Any) -> bool:
        """Whether `fit` calls, to train the net for tables. There must be this net or a builder."""
        is_table = isinstance(criterion, TabularTask) and isinstance(self._rows, TablePreprocessor)
        if self.net_builder is None and not is_table:
            raise BadInput("there is no net: pass net_builder, or call fit, which needs none for rows and one target")
        if is_table and optimizer is not None:
            raise BadInput("optimizer: the net for tables has its own. Pass net_builder to choose another")
        return is_table

    def _run(self, training: Training, folder: Path | None, users: Sequence[Callback], hook: Callback | None) -> Report:
        """Train in a directory, if there is to be one."""
        path = training.name
        if path is None or folder is None:
            return training.run(None, users, hook)
        keep_earlier(path, folder, training.run_options.verbose)
        self._remember_builder(path, folder)
        config = training.config()
        if training.rules is not None:
            config["num_members"] = self._num_members
        with open_facade(folder, "PytorchTrainer", config) as result:
            return self._load_finished(result, path) if result.is_finished else training.run(result, users, hook)

    def fit(self, inputs: Any, targets: Any, weights: Any = None, *, fast: bool | None = None, **options: Any) -> Self:
        """Train on rows in memory. Without a builder, each call trains a new net for tables.

        Args:
            inputs: An array, tensor or frame (of pandas, polars or Arrow) with one row per example; for a builder's net
                with several inputs, a list of arrays. Integers of arrays stay integers, as embeddings need them.
            targets: What to predict, one entry per row, or the name of its column. Rows without one are ignored.
            weights: The weight of each row; for a builder's net also of each of its outputs.
            fast: Train a net with one member instead of eight, in about a fifth of the time.
            **options: The arguments of `train`, except `dataset`. Without a `name`, no files are written.

        Returns:
            This trainer.

        Raises:
            BadInput: The rows or the options are wrong.

        Example:
            ```python
            import numpy as np
            import pandas as pd
            from samovar import PytorchTrainer

            frame = pd.DataFrame(np.random.rand(300, 2), columns=["price", "age"])
            frame["sold"] = np.where(frame["price"] < 0.5, "yes", "no")
            trainer = PytorchTrainer().fit(frame, "sold", name="sales", n_epochs=3, verbose=False)
            print(trainer.predict(frame[:3]), trainer.predict_proba(frame[:3]))
            ```
        """
        settings = {"name": None, **self._given_options(), **options}
        if unknown := settings.keys() - self._defaults().keys():
            name = min(unknown)
            raise BadInput(f"fit has no argument {name!r}{suggest(name, self._defaults())}")
        is_fast = settings.pop("fast", False) if fast is None else fast
        rows, wanted = take_target(inputs, targets)
        self._target_name = targets if isinstance(targets, str) else None
        if self.net_builder is None:
            if "criterion" in settings:
                raise BadInput("criterion: the built-in net for tables has its own. Pass net_builder to choose another")
            dataset = self._read_table(rows, wanted, weights, settings)
            self._num_members = 1 if is_fast else NUM_MEMBERS
            settings["criterion"] = self.criterion
        else:
            if is_fast:
                raise BadInput("fast=True is for the built-in net for tables. Remove it, or remove net_builder")
            dataset = self._read_inputs(rows, wanted, weights, settings)
        self.train(dataset, **settings)
        return self

    def _read_table(self, rows: Any, targets: Any, weights: Any, settings: Mapping[str, Any]) -> ArrayDataset:
        """Learn from rows what the net for tables has to know, and forget the net before."""
        if weights is not None and (shape := as_tensor(weights, "weights").shape)[1:]:
            raise BadInput(f"weights must be one number per row, got the shape {list(shape)}")
        columns = read_finite(rows)
        train = self._split(len(next(iter(columns.values()))), settings).train
        task = TabularTask.fit(targets)
        table = TablePreprocessor().fit(take_rows(columns, train))
        self._net, self._is_trained, self._scales = None, False, InputScales()
        self.criterion, self._rows = task, table
        return ArrayDataset(list(table.transform(columns)), task.encode(targets), weights)

    def _read_inputs(self, rows: Any, targets: Any, weights: Any, settings: Mapping[str, Any]) -> ArrayDataset:
        """The inputs of the user's net. One that is trained further takes columns as before."""
        if is_frame(rows) or isinstance(rows, Mapping):
            columns = read_finite(rows)
            if not self._is_trained or not isinstance(self._rows, FrameInputs):
                self._rows = FrameInputs()
                self._rows.fit(columns, self._split(len(next(iter(columns.values()))), settings).train)
            inputs = self._rows.transform(columns)
            rows = inputs if len(inputs) > 1 else inputs[0]
        elif not self._is_trained:
            self._rows = None
        if isinstance(targets, pa.Array):
            targets = targets.to_numpy(zero_copy_only=False)
        return ArrayDataset(rows, targets, weights)

    def _split(self, num_rows: int, settings: Mapping[str, Any]) -> Split:
        chosen = {**self._defaults(), **settings}
        return split_examples(num_rows, chosen["train_prop"], chosen["shuffle"])

    def _choose_scales(self, asked: bool | None, is_scaled: bool, maker: BatchMaker, split: Split) -> InputScales:
        """A net that is trained further keeps its scales, unless asked for none."""
        if self._is_trained and (asked is None or asked):
            return self._scales
        return find_scales(maker, split.train) if is_scaled else InputScales()

    def _load_finished(self, result: OpenResult, path: Path) -> Report:
        """Load the net of a training that was finished earlier."""
        final = result.directory.load_model()
        states, run = final.tree["callbacks"], final.tree["run"]
        folder = Path(result.directory.name)
        self._load_into(folder / RUN_FILE, criterion=self.criterion)
        best, position = states["BestNets"]["nets"][0], final.position
        return Report(
            str(path), states["History"]["rows"], best["epoch"], best["loss"], position["averaged_loss"],
            position["num_averaged"], run["end_reason"], folder,
        )  # fmt: skip
