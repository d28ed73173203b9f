"""TensorRT at arm's length: library, device and engines, for the builder that compiles and the runtime that serves."""
