"""The course in notebooks: exercises that say what is wrong, predictions before the result is shown, answers that a grader can read.

import rfnb as rf
lesson = rf.lesson("07_search")                  # in the notebook
lesson.check("beam_step", beam_step)

from rfnb.teaching import exercise, wrong        # in checks/07_search.py
"""

from rfnb.teaching.brief import kind_of as kind_of
from rfnb.teaching.compare import call as call
from rfnb.teaching.compare import check_calls as check_calls
from rfnb.teaching.compare import check_gradient as check_gradient
from rfnb.teaching.compare import check_padding as check_padding
from rfnb.teaching.compare import check_same as check_same
from rfnb.teaching.compare import check_without as check_without
from rfnb.teaching.compare import truth_of as truth_of
from rfnb.teaching.compare import with_padding as with_padding
from rfnb.teaching.difference import is_same as is_same
from rfnb.teaching.exercises import exercise as exercise
from rfnb.teaching.exercises import wrong as wrong
