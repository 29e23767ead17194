"""Trains the net on augmented images."""

import numpy as np
import torch
from net import make_net  # type: ignore[import-not-found]  # beside this script, where `samovar run` finds it

from samovar import Params
from samovar.stages import Out


def main(params: Params, out: Out) -> None:
    train = np.load(out.source("augmentation") / "train.npz")
    images, labels = torch.from_numpy(train["images"]), torch.from_numpy(train["labels"])
    net = make_net(params, images[0].numel(), int(labels.max()) + 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=params.lr)
    for epoch in range(params.get("epochs", 20)):
        losses = []
        for rows in torch.chunk(torch.randperm(len(images)), params.get("steps", 12)):
            loss = torch.nn.functional.cross_entropy(net(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
            losses.append(loss.item())
        out.log(epoch=epoch, loss=float(np.mean(losses)))
    with (out / "weights.npz").open("xb") as file:
        np.savez(file, **{name: value.numpy() for name, value in net.state_dict().items()})
