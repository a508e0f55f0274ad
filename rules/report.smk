# Stage report: the claims and the figures behind them, as pages to read. The target rule `report` asks for these.
#
# inputs:  the stage's modules, the templates, the kernel files (quoted), every record, results/claims.json
# outputs: results/report.json, results/report.html, results/report.md


rule render:
    input:
        modules=modules("report"),
        templates=sorted(str(path) for path in Path("reports").glob("*.*")),
        kernels=list(KERNELS.values()),
        records=EVIDENCE,
        claims="results/claims.json",
    output:
        # The pages of the last good run stay until this one succeeds.
        record=update("results/report.json"),
        html=report(
            update("results/report.html"),
            caption="../reports/captions/report.rst",
            category="Report",
            labels={"page": "report.html"},
        ),
        markdown=update("results/report.md"),
    log:
        "results/logs/report.log",
    params:
        # By their paths as inputs, which differ from EVIDENCE where a store holds the files.
        records=lambda wildcards, input: [
            word for path in (*input.records, *OPTIONAL) for word in ("--record", path)
        ],
    shell:
        "python -m assay report {params.records:q} --claims {input.claims:q}"
        " --html {output.html:q} --markdown {output.markdown:q} --out {output.record:q} 2>&1 | tee {log:q}"
