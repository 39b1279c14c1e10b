"""A new job by hand: a form made from the payload serializer of its type, or plain JSON."""
