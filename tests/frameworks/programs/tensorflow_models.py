"""SavedModels: two that convert, with TensorFlow's own answers, and some that do not. Runs where TensorFlow is."""

import os
import shutil
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

OUT = Path(sys.argv[1])
RANDOM = np.random.default_rng(7)


def answers(case: str, **inputs: np.ndarray) -> None:
    """What TensorFlow answers through the saved signature."""
    loaded = tf.saved_model.load(str(OUT / case / "source"))
    outputs = loaded.signatures["serving_default"](**{name: tf.constant(array) for name, array in inputs.items()})
    arrays = {f"input.{name}": array for name, array in inputs.items()}
    arrays |= {f"output.{name}": outputs[name].numpy() for name in sorted(outputs)}
    np.savez(OUT / case / "case.npz", **arrays)


def images() -> None:
    """A convolutional network as Keras exports it."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    net = keras.Sequential(
        [
            layers.Input((32, 32, 3), name="image"),
            layers.Conv2D(16, 3, padding="same", strides=2, activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.MaxPooling2D(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    net.export(OUT / "images" / "source", verbose=False)
    answers("images", image=RANDOM.normal(size=(5, 32, 32, 3)).astype(np.float32))


def two_heads() -> None:
    """Integer and float inputs, a recurrent layer, two named outputs."""
    keras.utils.set_random_seed(8)
    layers = keras.layers
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    scale = keras.Input((1,), name="scale")
    state = layers.LSTM(12)(layers.Embedding(50, 8)(tokens))
    outputs = {"label": layers.Dense(3)(state), "score": layers.Multiply()([layers.Dense(1)(state), scale])}
    net = keras.Model({"tokens": tokens, "scale": scale}, outputs)

    @tf.function(
        input_signature=[tf.TensorSpec((None, 1), name="scale"), tf.TensorSpec((None, None), tf.int32, "tokens")]
    )
    def serve(scale: tf.Tensor, tokens: tf.Tensor) -> dict[str, tf.Tensor]:
        return net({"tokens": tokens, "scale": scale})

    module = tf.Module()
    module.net = net
    tf.saved_model.save(module, str(OUT / "two_heads" / "source"), signatures={"serving_default": serve})
    answers(
        "two_heads",
        scale=RANDOM.normal(size=(3, 1)).astype(np.float32),
        tokens=RANDOM.integers(0, 50, (3, 11), dtype=np.int32),
    )


def saved(case: str, function: tf.types.experimental.PolymorphicFunction, shape: tuple[int | None, ...]) -> None:
    """A module with one function."""
    module = tf.Module()
    module.serve = tf.function(function, input_signature=[tf.TensorSpec(shape, name="x")])
    tf.saved_model.save(module, str(OUT / case / "source"), signatures={"serving_default": module.serve})


def refused() -> None:
    """What tenants bring and nobody can convert."""
    saved(
        "python",
        lambda x: {"y": tf.ensure_shape(tf.py_function(lambda a: a + 1, [x], tf.float32), (None, 4))},
        (None, 4),
    )
    saved("no_counterpart", lambda x: {"y": tf.linalg.cholesky(x)}, (3, 3))
    module = tf.Module()
    module.weight = tf.Variable(1.0)
    tf.saved_model.save(module, str(OUT / "no_signature" / "source"))
    for case, change in (("custom", custom), ("cut", lambda data: data[: len(data) // 2])):
        shutil.copytree(OUT / "images" / "source", OUT / case / "source")
        path = OUT / case / "source" / "saved_model.pb"
        path.write_bytes(change(path.read_bytes()))


def custom(data: bytes) -> bytes:
    """The graph with an operator that a library of the trainer's would bring."""
    model = SavedModel.FromString(data)
    function = model.meta_graphs[0].graph_def.library.function[0]
    function.node_def.add(name="tail", op="MyFusedOp")
    return model.SerializeToString()


images()
two_heads()
refused()
