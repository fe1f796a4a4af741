"""Run in the mlflow container by deploy/try-compose: what a search has left in registry and stores."""

import boto3
import optuna
from mlflow import MlflowClient

client = MlflowClient("http://127.0.0.1:5000")
version = client.get_model_version_by_alias("infocal-beer-palate", "challenger")
print(f"registered: {version.name} version {version.version} as challenger, run {version.run_id}")

study = optuna.load_study(study_name=None, storage="postgresql+psycopg:///optuna")
print(f"for Optuna's dashboard: study {study.study_name} with {len(study.trials)} trials")
assert len(study.trials) == 2, "the study was not exported whole"

pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket="infocal")
keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
areas = {"mlflow/": "artifacts", "results/studies/try/": "the study", "results/features/": "features"}
for start, what in areas.items():
    found = [key for key in keys if key.startswith(start)]
    print(f"in the store: {what}, {len(found)} objects below {start}")
    assert found, f"nothing lies below {start}"
weights = [key for key in keys if key.startswith("mlflow/") and key.endswith("package/model.safetensors")]
print(f"in the store: the weights, {weights}")
assert weights, "no weights are in the store"
