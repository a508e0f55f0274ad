# Stage gate: asks the real gate whether kernels may run here, and whether the captured device calls for its answer.
#
# inputs:  the stage's modules, results/environment.json
# outputs: results/gate.json


rule gate:
    input:
        modules=[str(path) for path in modules("gate")],
        environment="results/environment.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/gate.json"),
            caption="../reports/captions/gate.rst",
            category="Records",
            subcategory="machine",
            labels={"record": "gate"},
        ),
    log:
        "results/logs/gate.log",
    resources:
        gpu=1,
    params:
        settings=stage_settings(SETTINGS, "gate"),
    shell:
        "python -m assay gate --environment {input.environment:q}"
        " --settings {params.settings:q} --out {output:q} 2>&1 | tee {log:q}"
