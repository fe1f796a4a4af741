"""Run in the mlflow container by deploy/try-compose: a version is registered, its files lie in the store."""

import boto3
from mlflow import MlflowClient

client = MlflowClient("http://127.0.0.1:5000")
version = client.get_model_version_by_alias("infocal-beer-palate", "challenger")
print(f"registered: {version.name} version {version.version} as challenger, run {version.run_id}")

pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket="infocal", Prefix="mlflow/")
keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
weights = [key for key in keys if key.endswith(".safetensors")]
print(f"in the store: {len(keys)} objects below mlflow/, weights {weights}")
assert weights, "no weights are in the store"
