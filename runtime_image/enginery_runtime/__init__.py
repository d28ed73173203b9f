"""The inference server: one engine on one device, answered over the Open Inference Protocol (REST and gRPC)."""
