package main

// clientTopics are what a host promises whoever talks to it.
func clientTopics() []topic {
	return []topic{
		{"M22 a host that is told to stop", drainRows},
		{"M28 clients that do not read", stalledRows},
		{"hostile clients", atEach(false, hostileRows)},
	}
}
