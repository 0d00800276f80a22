"""A program in Python that lets its users script it."""

import opscript

PRICES = {"apple": 3, "pear": 4}


def price(item):
    if item not in PRICES:
        raise ValueError(f"there is no {item}")
    return PRICES[item]


with opscript.Runtime() as runtime:
    runtime.register("price", price)
    print(runtime.evaluate("price 'apple' + price 'pear'"))
    print(runtime.evaluate("{ customer = 'Ada', rows = { { item = 'apple', count = 2 } }, total = 2.5, paid = true }"))
    print(runtime.call("string.format", "%s costs %d", "an apple", 3))
    print(runtime.map("return function(operation, n) return price 'pear' * n end", range(1, 6)))
    try:
        runtime.evaluate("price 'melon'")
    except opscript.Error as error:
        print(error)
