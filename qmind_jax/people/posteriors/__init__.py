"""What is known of people after their answers: particles, hierarchies, and people drawn from them."""
