# Stage claims: what the records show, and what they do not.
#
# inputs:  the stage's modules, the kernel files, every record before this one, all sources of the workflow
# outputs: results/claims.json


rule claims:
    input:
        modules=modules("claims"),
        # Claims name the state of the whole source.
        sources=workflow_files(),
        kernels=list(KERNELS.values()),
        records=EVIDENCE,
    output:
        # The record of the last good run stays until this one succeeds.
        report(
            update("results/claims.json"),
            caption="../reports/captions/claims.rst",
            category="Claims",
            labels={"record": "claims"},
        ),
    log:
        "results/logs/claims.log",
    params:
        settings=stage_settings(SETTINGS, "claims"),
        # By their paths as inputs, which differ from EVIDENCE where a store holds the files.
        records=lambda wildcards, input: [
            word for path in (*input.records, *OPTIONAL) for word in ("--record", path)
        ],
        # No input, or a report would plant faults: a record of them that changed is seen by its digest.
        optional=" ".join(OPTIONAL.values()),
    shell:
        "python -m assay claims {params.records:q} --settings {params.settings:q} --out {output:q} 2>&1 | tee {log:q}"
