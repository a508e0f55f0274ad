# Stage gpu: every case of one kernel on the device, and whether it launched the binaries that were compiled ahead.
#
# inputs:  the stage's modules, the kernel file, results/environment.json, results/gate.json,
#          results/<kernel>/compile.json
# outputs: results/<kernel>/gpu.json


rule gpu:
    input:
        modules=modules("gpu"),
        kernel="kernels/{kernel}.py",
        environment="results/environment.json",
        gate="results/gate.json",
        compile="results/{kernel}/compile.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/{kernel}/gpu.json"),
            caption="../reports/captions/gpu.rst",
            category="Records",
            subcategory="{kernel}",
            labels={"record": "gpu"},
        ),
    log:
        # What the kernel file prints; the stage's own words go to the terminal.
        "results/{kernel}/logs/gpu.log",
    resources:
        gpu=1,
    params:
        settings=stage_settings(SETTINGS, "gpu"),
    shell:
        "python -m assay gpu --kernel {input.kernel:q} --environment {input.environment:q}"
        " --gate {input.gate:q} --compile {input.compile:q} --settings {params.settings:q} --out {output:q}"
