"""Ways to see and steer a run in a browser: the live panel and its static form."""
