# The target `versions`: interpreter and compile tiers under each Triton release, and what changed between neighbours.
#
# inputs:  the modules, the kernel files, .venvs/<version>/, the templates
# outputs: results/versions/<version>/<kernel>/<stage>.json, results/versions.json and its pages


# The stages of these names, by their own modules, in another environment.
rule stage_in_version:
    input:
        modules=lambda wildcards: modules(wildcards.stage),
        kernel="kernels/{kernel}.py",
        environment="results/versions/{version}/environment.json",
    output:
        update("results/versions/{version}/{kernel}/{stage}.json"),
    log:
        "results/versions/{version}/{kernel}/logs/{stage}.log",
    wildcard_constraints:
        stage="interpreter|compile",
    params:
        settings=lambda wildcards: stage_settings(SETTINGS, wildcards.stage),
        interpret=lambda wildcards: int(wildcards.stage == "interpreter"),
    shell:
        "PYTHONPATH= TRITON_INTERPRET={params.interpret} .venvs/{wildcards.version}/bin/python -m assay"
        " {wildcards.stage} --kernel {input.kernel:q} --environment {input.environment:q}"
        " --settings {params.settings:q} --out {output:q}"


rule versions:
    input:
        # A function for each release: one that has yet to be tried hides nothing of the others.
        *installation.record_functions(checkpoints.install, KERNELS),
        modules=modules("versions"),
        templates=sorted(str(path) for path in Path("reports").glob("*")),
        installed=expand(
            ".venvs/{version}/installation.json",
            version=installation.locked_versions(),
        ),
    output:
        update("results/versions.json"),
        update("results/versions.html"),
        update("results/versions.md"),
    log:
        "results/logs/versions.log",
    params:
        records=lambda wildcards, input: installation.records_among(input),
    shell:
        "python -m assay versions --installation {input.installed:q} --record {params.records:q} 2>&1 | tee {log:q}"
