# Rules `install` and `environment_in_version`: the environment of each Triton release that envs/ has a lock for.
#
# inputs:  the modules, envs/triton/<version>.txt
# outputs: .venvs/<version>/, results/versions/<version>/environment.json

from assay import installation


wildcard_constraints:
    version=installation.VERSION,


# A checkpoint, since a release that cannot be installed leaves nothing more to make for it, which is no error.
checkpoint install:
    input:
        modules=modules("install"),
        lock="envs/triton/{version}.txt",
    output:
        update(".venvs/{version}/installation.json"),
    log:
        "results/logs/install-{version}.log",
    # On a cluster: where there is a network.
    localrule: True
    params:
        python=sys.version,
        attempt=lambda wildcards: installation.next_attempt(wildcards.version),
    shell:
        "python -m assay install {wildcards.version} --lock {input.lock:q} 2>&1 | tee {log:q}"


rule environment_in_version:
    input:
        modules=modules("environment"),
        installed=".venvs/{version}/installation.json",
    output:
        # The record of the last good run stays until this one succeeds.
        update("results/versions/{version}/environment.json"),
    log:
        "results/logs/environment-{version}.log",
    params:
        settings=stage_settings(SETTINGS, "environment"),
        fingerprint=FINGERPRINT,
    shell:
        "PYTHONPATH= .venvs/{wildcards.version}/bin/python -m assay environment"
        " --settings {params.settings:q} --out {output:q} 2>&1 | tee {log:q}"
