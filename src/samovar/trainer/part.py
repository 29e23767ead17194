"""Some examples of a data set, as a data set."""

from typing import Any

from torch.utils.data import Dataset

from samovar.data.split import Indices


class Part(Dataset[Any]):
    """What the whole says of its columns holds for the part."""

    def __init__(self, dataset: Any, indices: Indices) -> None:
        self.dataset = dataset
        self.indices = indices
        for name in ("regression_flags", "scale"):
            if hasattr(dataset, name):
                setattr(self, name, getattr(dataset, name))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]
