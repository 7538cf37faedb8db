"""The forms of all topics: one file each, found by its name."""

import importlib
import pkgutil

from oracle.forms import Form

FORMS: dict[str, Form] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").FORM for module in pkgutil.iter_modules(__path__)
}
