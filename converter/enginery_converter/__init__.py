"""Runs inside framework images: turns a SavedModel, a PyTorch export or a Hugging Face directory into ONNX."""
