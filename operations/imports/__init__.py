"""Import: files of your own history -> a topic, in event-time order, with the event time as the arrival time."""
