"""Converts a TensorFlow SavedModel, a PyTorch export or a Hugging Face directory to ONNX, in a framework's image.

The prepare Job of a source that is not ONNX has two init containers before its container. All three get the same
request document (enginery_store.requests.PrepareRequest); an ONNX source has neither.

    container   image                     arguments   credentials
    fetch       builder                   fetch       store, and source where the model names a Secret
    convert     converter of the format   none        none
    builder     builder                   prepare     store, and source where the model names a Secret

Images: TensorFlowSavedModel has `converter-tensorflow`; PyTorchExport and HuggingFace share `converter-pytorch`.

Environment of all three: ENGINERY_REQUEST, ENGINERY_LOG_LEVEL (optional). User, security context and pod settings are
those of every builder pod: non-root, read-only root file system, no capabilities, no service-account token.

Mounts. The volume `work` is one emptyDir. `fetch` and `builder` see the whole of it; `convert` sees two folders, so
that nothing a model makes a framework do can change what was fetched, or what was noted of it:

    fetch     work at /var/lib/enginery; tmp at /tmp; store and source credentials as in `builder`
    convert   work, subPath `source`, at /var/lib/enginery/source, readOnly
              work, subPath `converted`, at /var/lib/enginery/converted
              an emptyDir of its own (`convert-tmp`) at /tmp; no Secret, no other volume
    builder   as ever

What is handed over, names in enginery_store.requests:

    <work>/source/...                 written by fetch: the source, by relative names
    <work>/source.json                written by fetch: names, sizes, sha256, digest (SourceFiles)
    <work>/converted/                 made by fetch, empty
    <work>/converted/model.onnx       written by convert, with external data in model.onnx.data beside it
    <work>/converted/converted.json   written by convert, last: tool versions and warnings, or a refusal (Conversion)

Ends. Each leaves a TerminationMessage in /dev/termination-log and ends with EXIT_CODES[reason], as the builder does:
10-49 final, 50-69 passing, 1 unforeseen, 143 for SIGTERM.

    fetch     0 (Preparing) when the source is there. A final reason of the source is recorded under the request's key.
    convert   0 (Preparing) when there is a model or a refusal. `convert` cannot write to the store; so what is wrong
              with the source itself (UnsupportedFormat, UnsupportedOperator, SourceInvalid, SourceTooLarge,
              InvalidSpec, ConversionFailed) goes into converted.json, and `builder` records it under the request's key
              and ends with its reason and code: one place from which a refusal outlives its Job.
              Other codes: 12 BuildOutOfMemory (the framework was killed), 26 BuildTimeout, 27 ConfigError (the kernel
              takes no seccomp filter, the image lacks the framework, the disk is full); 1 and 143 as above.
    builder   as ever.

So the failure policy names the final codes for all three containers. Each container keeps to the request's
timeoutSeconds by itself; the pod's deadline must leave room for three. `convert` takes the most memory: the framework
and several copies of the weights; its resources are those of a prepare Job.
"""
