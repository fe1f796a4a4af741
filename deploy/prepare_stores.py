#!/usr/bin/env python3
"""Make what the services expect to find: a bucket, and a database for Optuna's studies. Again is harmless.

prepare-stores BUCKET DATABASE

The servers are those of the usual variables: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;
PGHOST, PGUSER, PGPASSWORD and PGDATABASE, any that exists.
"""

import sys
from collections.abc import Sequence
from typing import Any


def prepare_bucket(client: Any, name: str) -> bool:
    """Make a bucket if it is not there; whether it had to be made."""
    if name in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
        return False
    client.create_bucket(Bucket=name)
    return True


def prepare_database(connection: Any, name: str) -> bool:
    """Make a database if it is not there; whether it had to be made.

    Args:
        connection: psycopg's, in autocommit mode: no transaction can hold CREATE DATABASE.
        name: of the database.
    """
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
        return False
    quoted = '"' + name.replace('"', '""') + '"'  # a name cannot be a parameter
    connection.execute(f"CREATE DATABASE {quoted}")
    return True


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    if len(arguments) != 2:
        print("usage: prepare-stores BUCKET DATABASE", file=sys.stderr)
        return 2
    import boto3
    import optuna
    import psycopg

    bucket, database = arguments
    made = prepare_bucket(boto3.client("s3"), bucket)
    print(f"bucket {bucket}: {'made' if made else 'is there'}")
    with psycopg.connect(autocommit=True) as connection:
        made = prepare_database(connection, database)
    # with its tables, without which optuna-dashboard does not start; those that are there stay
    optuna.storages.RDBStorage(f"postgresql+psycopg:///{database}")
    print(f"database {database}: {'made' if made else 'is there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
