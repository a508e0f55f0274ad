# Stage environment: the machine and its software, as far as they stay the same between two runs.
#
# inputs:  the stage's modules; the fingerprint stands for the machine, whose changes no file shows
# outputs: results/environment.json

from assay.environment import fingerprint

FINGERPRINT = fingerprint()


rule environment:
    input:
        modules=[str(path) for path in modules("environment")],
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/environment.json"),
            caption="../reports/captions/environment.rst",
            category="Records",
            subcategory="machine",
            labels={"record": "environment"},
        ),
    log:
        "results/logs/environment.log",
    resources:
        # On a cluster: captured where the kernels will run.
        gpu=1,
    params:
        settings=stage_settings(SETTINGS, "environment"),
        fingerprint=FINGERPRINT,
    shell:
        "python -m assay environment --settings {params.settings:q} --out {output:q} 2>&1 | tee {log:q}"
