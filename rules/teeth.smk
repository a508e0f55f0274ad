# Stage teeth: faults planted into one kernel, and which of them the evidence would have caught. It takes minutes, so
# only the target `teeth` asks for it; a report shows the records that are there.
#
# inputs:  the stage's modules, the kernel file, results/environment.json, results/gate.json,
#          results/<kernel>/interpreter.json, results/<kernel>/compile.json, results/<kernel>/gpu.json
# outputs: results/<kernel>/teeth.json


rule plant:
    input:
        modules=modules("teeth"),
        kernel="kernels/{kernel}.py",
        environment="results/environment.json",
        gate="results/gate.json",
        interpreter="results/{kernel}/interpreter.json",
        compile="results/{kernel}/compile.json",
        gpu="results/{kernel}/gpu.json",
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/{kernel}/teeth.json"),
            caption="../reports/captions/teeth.rst",
            category="Records",
            subcategory="{kernel}",
            labels={"record": "teeth"},
        ),
    log:
        # What the faulty kernels print; the stage's own words go to the terminal.
        "results/{kernel}/logs/teeth.log",
    resources:
        gpu=1,
    params:
        settings=stage_settings(SETTINGS, "teeth"),
    shell:
        "python -m assay teeth --kernel {input.kernel:q} --environment {input.environment:q} --gate {input.gate:q}"
        " --interpreter {input.interpreter:q} --compile {input.compile:q} --gpu {input.gpu:q}"
        " --settings {params.settings:q} --out {output:q}"


rule teeth:
    input:
        expand("results/{kernel}/teeth.json", kernel=KERNELS),
    log:
        "results/logs/teeth.log",
    shell:
        "python -m assay score {input:q} 2>&1 | tee {log:q}"
