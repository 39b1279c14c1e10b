"""An application that uses Coppice as its users do: it locates the cities of the world."""
