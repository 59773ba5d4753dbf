"""Run another script as the main program, and keep the profile's spool, which its end removes.

python kept_spool.py KEPT SCRIPT ARG...
"""

import os
import runpy
import sys

os.link("out.pyhybrid.part", sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
