from .page import render as render
from .page import write_report as write_report
from .plots import plot as plot
from .plots import plot_bands as plot_bands
from .plots import plot_differences as plot_differences
from .plots import plot_estimates as plot_estimates
from .several import write_studies as write_studies
