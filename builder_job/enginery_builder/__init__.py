"""The builder: `prepare` turns a source into a prepared ONNX model, `build` compiles it for the device in hand.

Both are Jobs of one image, started by the operator with a request document; their replies are the model store's
documents and a termination message. Called as `python3 -m enginery_builder prepare|build`.
"""
