"""What a page must not run, or take for markup: names of functions, threads, files and regions."""

import threading
import time

import pyhybrid

EVIL = "</script><img src=x onerror=alert(1)><!--<script>"


def burn():
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass


def f():
    with pyhybrid.region(EVIL, text=EVIL):
        burn()  # </script><img src=x onerror=alert(2)>


f.__code__ = f.__code__.replace(co_name=EVIL, co_qualname=EVIL, co_filename=f"/tmp/{EVIL}.py")
thread = threading.Thread(target=f, name=EVIL + "\u2028\0")
thread.start()
thread.join()
