# Stage compile: every variant of one kernel for every target, without a GPU.
#
# inputs:  the stage's modules, the kernel file, results/environment.json
# outputs: results/<kernel>/compile.json


rule compile:
    input:
        modules=modules("compile"),
        kernel="kernels/{kernel}.py",
        environment="results/environment.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/{kernel}/compile.json"),
            caption="../reports/captions/compile.rst",
            category="Records",
            subcategory="{kernel}",
            labels={"record": "compile"},
        ),
    log:
        # What the kernel file prints; the stage's own words go to the terminal.
        "results/{kernel}/logs/compile.log",
    params:
        settings=stage_settings(SETTINGS, "compile"),
    shell:
        "python -m assay compile --kernel {input.kernel:q} --environment {input.environment:q}"
        " --settings {params.settings:q} --out {output:q}"
