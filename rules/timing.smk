# Stage timing: one kernel's variants, and the library's way to the same result, timed side by side on the device.
#
# inputs:  the stage's modules, the kernel file, results/environment.json, results/gate.json,
#          results/<kernel>/compile.json, results/<kernel>/gpu.json
# outputs: results/<kernel>/timing.json


rule timing:
    input:
        modules=modules("timing"),
        kernel="kernels/{kernel}.py",
        environment="results/environment.json",
        gate="results/gate.json",
        compile="results/{kernel}/compile.json",
        gpu="results/{kernel}/gpu.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/{kernel}/timing.json"),
            caption="../reports/captions/timing.rst",
            category="Records",
            subcategory="{kernel}",
            labels={"record": "timing"},
        ),
    log:
        # What the kernel file prints; the stage's own words go to the terminal.
        "results/{kernel}/logs/timing.log",
    resources:
        gpu=1,
    params:
        settings=stage_settings(SETTINGS, "timing"),
    shell:
        "python -m assay timing --kernel {input.kernel:q} --environment {input.environment:q}"
        " --gate {input.gate:q} --compile {input.compile:q} --gpu {input.gpu:q}"
        " --settings {params.settings:q} --out {output:q}"
