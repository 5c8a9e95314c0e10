"""What ecclTopologyExport gives holds to its schema: arguments are libeccl.so and the project's folder."""

import ctypes
import json
import os
import sys

LIBRARY, PROJECT = sys.argv[1:3]
try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit()


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def load():
    library = ctypes.CDLL(LIBRARY)
    library.ecclGetLastError.restype = ctypes.c_char_p
    library.ecclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    library.ecclTopologyExport.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]
    library.ecclCommDestroy.argtypes = [ctypes.c_void_p]
    return library


def checked(library, result):
    if result != 0:
        raise RuntimeError(library.ecclGetLastError(None).decode())


def exported(library, unique, ranks, rank):
    comm, size = ctypes.c_void_p(), ctypes.c_size_t()
    checked(library, library.ecclCommInitRank(comm, ranks, unique, rank))
    checked(library, library.ecclTopologyExport(comm, None, size))
    text = ctypes.create_string_buffer(size.value)
    checked(library, library.ecclTopologyExport(comm, text, size))
    checked(library, library.ecclCommDestroy(comm))
    return text.value.decode()


def exports(files):
    """Of ranks in processes of their own, rank i with ECCL_TOPO_FILE=files[i], if that is not None."""
    library, unique, pipes = load(), UniqueId(), []
    checked(library, library.ecclGetUniqueId(ctypes.byref(unique)))
    for rank, file in enumerate(files):
        end, other = os.pipe()
        if os.fork() == 0:
            code = 1
            try:
                if file is not None:
                    os.environ["ECCL_TOPO_FILE"] = os.path.join(PROJECT, "tests/topology/data", file)
                text = exported(library, unique, len(files), rank).encode()
                while text:
                    text = text[os.write(other, text):]
                code = 0
            except BaseException as error:
                print("rank %d: %s" % (rank, error), file=sys.stderr)
            os._exit(code)
        os.close(other)
        pipes.append(os.fdopen(end))
    texts = [pipe.read() for pipe in pipes]
    for _ in files:
        if os.wait()[1] != 0:
            sys.exit("a rank failed")
    return texts


def main():
    schemas = {}
    for name in ("cluster.schema.json", "topology.schema.json"):
        with open(os.path.join(PROJECT, "docs", name)) as file:
            schemas[name] = json.load(file)
    schema = schemas["cluster.schema.json"]
    validator = jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver("", schema, store=schemas))
    for files, hosts in (([None, None], 1), (["azure_ndv4.xml", "amd_topo_4p3l_n2.xml", "azure_ndv4.xml"], 2)):
        texts = exports(files)
        if texts[0] == "" or set(texts) != {texts[0]}:
            sys.exit("ranks disagree: %s" % texts)
        cluster = json.loads(texts[0])
        validator.validate(cluster)
        if sum(host.get("count", 1) for host in cluster["hosts"]) != hosts:
            sys.exit("not %d hosts: %s" % (hosts, texts[0]))


main()
