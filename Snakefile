# Assay: from kernel files to a report. `snakemake --cores 1 report` runs it; `-R timing` behind it repeats a stage.
import shlex
import sys

from assay.config import stage_settings
from assay.sources import modules, workflow_files
from assay.workflow import only_run, plan

SETTINGS, KERNELS, EVIDENCE, OPTIONAL = plan(config)

# In a rule, `python` is the one that runs Snakemake, whatever the PATH.
PYTHON = shlex.quote(sys.executable)
shell.prefix("set -euo pipefail; python() {{ " + PYTHON + ' "$@"; }}; ')


report: "reports/captions/workflow.rst"


# Every record is asked for by name, so that one that was deleted is made again though the report outlived it.
rule report:
    input:
        "results/report.html",
        "results/report.md",
        "results/claims.json",
        EVIDENCE,


rule check:
    input:
        rules.report.input,
    log:
        "results/logs/check.log",
    shell:
        "python -m assay check 2>&1 | tee {log:q}"


include: "rules/environment.smk"
include: "rules/interpreter.smk"
include: "rules/compile.smk"
include: "rules/gate.smk"
include: "rules/gpu.smk"
include: "rules/timing.smk"
include: "rules/teeth.smk"
include: "rules/claims.smk"
include: "rules/report.smk"
include: "rules/bundle.smk"
include: "rules/install.smk"
include: "rules/versions.smk"


onstart:
    workflow.run_lock = only_run()


# Snakemake notes a failed job as made from the present sources and settings, even where it puts the earlier record
# back. Noted as unfinished instead, it runs again next time.
onerror:
    for job in workflow.dag.needrun_jobs():
        workflow.persistence.started(job)
