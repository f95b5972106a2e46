"""A tiny CNN in torch that distinguishes horizontal from vertical stripes in noisy images.

    python3 cnn.py cnn.safetensors     writes the model's first values
"""

import sys
from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional

import model_file

SIDE, SAMPLES, BATCH, RATE = 16, 256, 64, 0.05

torch.set_num_threads(1)  # workers share the processors, so each should use one
torch.manual_seed(0)

net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(16 * (SIDE // 4) ** 2, 2),
)


@lru_cache  # a worker trains many clients, each of them many times
def data(client):
    made = torch.Generator().manual_seed(client)
    labels = torch.randint(2, (SAMPLES,), generator=made)
    waves = torch.sin(torch.arange(SIDE) * 1.5).expand(SIDE, SIDE)
    clean = torch.stack([waves if label else waves.T for label in labels])
    return (clean + torch.randn(clean.shape, generator=made)).unsqueeze(1), labels


def load(model):
    """Copies a model's tensors to the network, including batch norm's count of batches."""
    for name, tensor in net.state_dict().items():
        tensor.copy_(torch.tensor(model[name]))


def train(model, update, job):
    """Trains a client for one epoch, and writes the network's tensors to update."""
    load(model)
    net.train()
    images, labels = data(job.client)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    for at in range(0, SAMPLES, BATCH):
        if job.stopped():
            break
        optimizer.zero_grad()
        functional.cross_entropy(net(images[at:at + BATCH]), labels[at:at + BATCH]).backward()
        optimizer.step()
    for name, tensor in net.state_dict().items():
        update[name] = tensor.numpy()  # copies it to the memory it is sent from


if __name__ == "__main__":
    model_file.save(sys.argv[1], {name: t.numpy() for name, t in net.state_dict().items()})
