// What every page of the console starts.
