"""Checkpoints that transformers saves: of the models of tests/families, in one file and in several, and their config.json alone.

    python3 -m venv /tmp/families && /tmp/families/bin/pip install torch transformers gguf
    /tmp/families/bin/python tests/convert/oracle_checkpoints.py

writes tests/convert/configs.json, from which test_families makes checkpoints without transformers. The stored file was made with transformers 5.24.0."""
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "families/oracle"))
import dense  # noqa: E402
import experts  # noqa: E402
import gemma  # noqa: E402
import gemma_experts  # noqa: E402
import latent  # noqa: E402
import layernorm  # noqa: E402
import parallel  # noqa: E402
import variants  # noqa: E402

FAMILIES = dense.FAMILIES + variants.FAMILIES + gemma.FAMILIES + layernorm.FAMILIES + parallel.FAMILIES + experts.FAMILIES + latent.FAMILIES + \
    gemma_experts.FAMILIES
ONE_FILE, SEVERAL = "1GB", "40KB"


def save(family, folder, shard):
    """Save the model of a family's variant, as transformers does."""
    family.build().save_pretrained(folder, max_shard_size=shard)


def main():
    configs = {}
    for family_class in FAMILIES:
        for variant in range(2):
            with tempfile.TemporaryDirectory() as folder:
                save(family_class(variant), folder, ONE_FILE)
                config = json.loads((Path(folder) / "config.json").read_text())
            config.pop("transformers_version")
            configs[f"{family_class.name}/{variant}"] = config
    (Path(__file__).parent / "configs.json").write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(configs[name])}" for name in configs) + "\n}\n")


if __name__ == "__main__":
    main()
