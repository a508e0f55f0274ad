# Stage bundle: all evidence, with the sources that made it, as one archive.
#
# inputs:  the stage's modules, all sources of the workflow, every record, results/claims.json, results/report.json and
#          the pages
# outputs: bundles/<name>.tar, results/bundle.json


# The name holds a digest of what is inside, so no output can be declared ahead. The rule runs whenever it is asked for:
# all evidence is checked again, and a bundle that stands there already is left as it is.
rule bundle:
    input:
        rules.report.input,
        modules=modules("bundle"),
        sources=workflow_files(),
        claims="results/claims.json",
        report="results/report.json",
    log:
        "results/logs/bundle.log",
    params:
        records=[word for path in (*EVIDENCE, *OPTIONAL) for word in ("--record", path)],
    shell:
        "python -m assay bundle {params.records:q} --claims {input.claims:q} --report {input.report:q}"
        " --out results/bundle.json 2>&1 | tee {log:q}"
