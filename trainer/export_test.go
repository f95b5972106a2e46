package trainer

// UserThreads is for the tests of limits.
var UserThreads = userThreads
