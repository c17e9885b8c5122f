"""The command lines of servers, and the rules of an administrator about them."""
