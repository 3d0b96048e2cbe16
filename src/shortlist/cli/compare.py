"""stub"""


def compare() -> None:
    """x"""
