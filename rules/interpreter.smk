# Stage interpreter: every case of one kernel under Triton's interpreter, on the CPU.
#
# inputs:  the stage's modules, the kernel file, results/environment.json
# outputs: results/<kernel>/interpreter.json


rule interpreter:
    input:
        modules=modules("interpreter"),
        kernel="kernels/{kernel}.py",
        environment="results/environment.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/{kernel}/interpreter.json"),
            caption="../reports/captions/interpreter.rst",
            category="Records",
            subcategory="{kernel}",
            labels={"record": "interpreter"},
        ),
    log:
        # What the kernel file prints; the stage's own words go to the terminal.
        "results/{kernel}/logs/interpreter.log",
    params:
        settings=stage_settings(SETTINGS, "interpreter"),
    shell:
        # Triton chooses between interpreter and compiler when it decorates, so each has its own process.
        "TRITON_INTERPRET=1 python -m assay interpreter --kernel {input.kernel:q}"
        " --environment {input.environment:q} --settings {params.settings:q} --out {output:q}"
