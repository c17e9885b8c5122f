#!/bin/sh
# An interpreter that does not work here.
exit 3
