"""ResNet-50 and the encoder of BERT-Large in PyTorch, with random weights that behave like trained ones.

Batch normalisation has seen data, so activations stay in the range they have in a trained network.
"""

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, POSITIONS, HIDDEN, HEADS, LAYERS, INNER = 30522, 512, 1024, 16, 24, 4096
"""BERT-Large, uncased."""


def resnet50(device: str) -> nn.Module:
    """Image in, 1000 scores out."""
    torch.manual_seed(0)
    network = torchvision.models.resnet50(weights=None).to(device).train()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain mean over all batches
    with torch.no_grad():
        for _ in range(4):
            network(torch.randn(16, 3, 224, 224, device=device))
    return network.eval()


class Attention(nn.Module):
    """Self-attention of all tokens to all tokens: sequences are full, so there is no mask."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.plain = False
        """Written as matrix products for the exporter, instead of PyTorch's fused kernel."""

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same."""
        query, key, value = (self._heads(layer(x)) for layer in (self.query, self.key, self.value))
        if self.plain:
            weights = torch.softmax(query @ key.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5, dim=-1)
            mixed = weights @ value
        else:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(-1, x.shape[1], HIDDEN))

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(-1, x.shape[1], HEADS, HIDDEN // HEADS).transpose(1, 2)


class Layer(nn.Module):
    """Attention, then two linear layers, each with a residual and a norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.attention_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.inner, self.outer = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, hidden] to the same."""
        x = self.attention_norm(x + self.attention(x))
        return self.norm(x + self.outer(functional.gelu(self.inner(x))))


class BertLarge(nn.Module):
    """Embeddings and encoder."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("places", torch.arange(tokens))

    def forward(self, input_ids: Tensor) -> Tensor:
        """[batch, tokens] to [batch, tokens, hidden]."""
        x = self.norm(self.words(input_ids) + self.positions(self.places))
        for layer in self.layers:
            x = layer(x)
        return x


def bert_large(device: str, tokens: int = 128) -> nn.Module:
    """Token ids in, hidden states out."""
    torch.manual_seed(0)
    with torch.device(device):
        network = BertLarge(tokens)
    for name, parameter in network.named_parameters():
        scale = name.endswith("norm.weight")
        nn.init.normal_(parameter, mean=1.0 if scale else 0.0, std=0.02)  # no two alike: the exporter would share them
    return network.eval()


def inputs(name: str, batch: int, device: str) -> Tensor:
    """Random inputs of a model."""
    torch.manual_seed(1)
    if name == "resnet50":
        return torch.randn(batch, 3, 224, 224, device=device)
    return torch.randint(0, VOCABULARY, (batch, 128), device=device)


NETWORKS = {"resnet50": resnet50, "bert-large": bert_large}
