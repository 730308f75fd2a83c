"""Small hand-written sets: registries of three and of fifteen, and tasks with what they need.

Each size has two sets on other subjects. Those that end in ``_CHOSEN`` were looked at while selection was
written; those that end in ``_REPORTED`` were written beside them. ``FIFTEEN_THIRD`` was written afterwards.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class SmallSet(NamedTuple):
    """A registry, and tasks with the names that each needs; an empty tuple: none of them."""

    name: str
    descriptions: dict[str, str]
    examples: dict[str, tuple[str, ...]]
    tasks: tuple[tuple[str, tuple[str, ...]], ...]


#: Tasks of other kinds than the registries of three: none is needed.
OTHER_CHOSEN: Final = (
    "fix the failing test in parser.py",
    "What is the capital of Peru?",
    "refactor the login module",
    "explain how a hash table works",
    "write a haiku about autumn leaves",
    "Add type hints to the functions in utils.py",
    "what does this regular expression match?",
    "summarise the second chapter in three sentences",
    "Why does the build fail on Windows?",
    "translate 'good morning' into Spanish",
    "make the tests run in parallel",
    "Rename the variable count to total everywhere",
    "what is 17 times 23?",
    "Draft a plan for moving the database to another server",
    "the page is empty after login, find out why",
    "list three books about the French revolution",
    "Is there a faster way to sort these records?",
    "thanks, that looks good",
    "can you review my pull request?",
    "How do I undo the last commit in git?",
)

OTHER_REPORTED: Final = (
    "remove the unused imports from all files",
    "Who wrote The Magic Mountain?",
    "the server answers with status 500 since yesterday, please look into it",
    "write a unit test for the date parser",
    "What is the difference between a process and a thread?",
    "turn this class into a dataclass",
    "make a shorter version of this paragraph",
    "Why is the sky blue?",
    "go on",
    "Set up continuous integration for this repository",
    "how many legs does a spider have?",
    "delete the temporary files in the build folder",
    "Compare these two sorting algorithms",
    "bump the version and write the release notes",
    "which of these functions is never called?",
    "Suggest a name for a bakery",
    "our users cannot reset their password any more",
    "what would you change in this design?",
    "split this function into smaller ones",
    "Is it true that cats always land on their feet?",
)

THREE_CHOSEN: Final = SmallSet(
    "three, weather and mail",
    {
        "current_weather": "Activate when the user requests weather information",
        "send_mail": "Activate when the user wants an e-mail to be written and sent",
        "calendar": "Activate when the user asks about appointments or wants to make one",
    },
    {
        "current_weather": (
            "What's the weather like?",
            "Will it rain tomorrow?",
            "How warm is it in Madrid right now?",
            "Do I need an umbrella today?",
            "Is it snowing in the mountains?",
        ),
        "send_mail": (
            "Send an e-mail to Ida about the meeting",
            "Write to the office that I am ill",
            "Mail the report to my boss",
            "Can you e-mail the landlord?",
            "Reply to Tom's message and say yes",
        ),
        "calendar": (
            "What is on my calendar on Friday?",
            "Make an appointment with the dentist",
            "Am I free at three o'clock?",
            "Move the meeting to Monday",
            "When is my next appointment?",
        ),
    },
    (
        ("Is it raining in Oslo?", ("current_weather",)),
        ("what will the temperature be in Rome this weekend", ("current_weather",)),
        ("how is the weather in Lisbon", ("current_weather",)),
        ("will there be snow in the Alps on Sunday?", ("current_weather",)),
        ("send Maria an email that the train is late", ("send_mail",)),
        ("please write a mail to the tax adviser", ("send_mail",)),
        ("answer Peter's e-mail, I agree with him", ("send_mail",)),
        ("do I have any appointments tomorrow?", ("calendar",)),
        ("put lunch with Anna into my calendar for Tuesday", ("calendar",)),
        ("check tomorrow's weather and e-mail it to the team", ("current_weather", "send_mail")),
        *((task, ()) for task in OTHER_CHOSEN),
    ),
)

THREE_REPORTED: Final = SmallSet(
    "three, money, music and maps",
    {
        "convert_currency": "Converts an amount of money from one currency into another",
        "play_music": "Plays a song, an album or a radio station",
        "find_route": "Finds the way from one place to another, on foot, by car or by train",
    },
    {
        "convert_currency": (
            "How much is 20 dollars in euros?",
            "Convert 300 yen to pounds",
            "what's the exchange rate of the franc",
            "I have 50 zloty, what is that in dollars?",
            "change 1,000 kronor into euros",
        ),
        "play_music": (
            "Play something by Miles Davis",
            "put on the news station",
            "turn on some jazz",
            "I want to hear the new album of Adele",
            "next song please",
        ),
        "find_route": (
            "How do I get to the airport?",
            "show me the way to the station",
            "how long is the drive from Bern to Milan?",
            "Which train goes to Hamburg?",
            "is it far to walk to the museum?",
        ),
    },
    (
        ("what are 80 pounds in Swiss francs", ("convert_currency",)),
        ("convert ninety euros to dollars", ("convert_currency",)),
        ("how many rupees do I get for a dollar?", ("convert_currency",)),
        ("play the first song of that album again", ("play_music",)),
        ("some quiet piano music please", ("play_music",)),
        ("turn on the radio", ("play_music",)),
        ("what is the quickest way to the main station?", ("find_route",)),
        ("how do I get from here to the zoo by bus", ("find_route",)),
        ("directions to the nearest hospital", ("find_route",)),
        ("show me the way to the opera and play some Verdi", ("find_route", "play_music")),
        *((task, ()) for task in OTHER_REPORTED),
    ),
)

FIFTEEN_CHOSEN: Final = SmallSet(
    "fifteen, a coding agent with office tools",
    {
        "Read": "Reads a file from the local filesystem. Returns its contents with line numbers.",
        "Write": "Writes a file to the local filesystem, and replaces the file that is there.",
        "Edit": "Performs exact string replacements in files.",
        "Bash": "Executes a given bash command in a persistent shell session with optional timeout.",
        "Grep": "A powerful search tool built on ripgrep. Searches file contents with regular expressions.",
        "Glob": "Fast file pattern matching tool that works with any codebase size.",
        "WebFetch": "Fetches content from a specified URL and processes it using an AI model.",
        "WebSearch": "Allows to search the web and use the results to inform responses.",
        "TodoWrite": "Create and manage a structured task list for the current coding session.",
        "Task": "Launch a new agent to handle complex, multi-step tasks autonomously.",
        "get_forecast": "Weather forecast for a city: temperature, rain and wind for the next days.",
        "send_mail": "Sends an e-mail with subject and text to one or several recipients.",
        "create_ticket": "Creates a ticket in the issue tracker with a title and a description.",
        "query_db": "Runs a read-only SQL query against the company's data warehouse.",
        "calendar_list": "Lists the events of a calendar between two dates.",
    },
    {},
    (
        ("Find every usage of parse_config and rename it to load_config", ("Grep", "Read", "Edit")),
        ("Run the tests and fix what fails", ("Bash", "Read", "Edit")),
        ("Will it rain in Oslo tomorrow?", ("get_forecast",)),
        ("What is on my calendar next week?", ("calendar_list",)),
        ("Send an e-mail to the team that the release is out", ("send_mail",)),
        ("How many customers did we win in October? Look it up in the data warehouse", ("query_db",)),
        ("Open a ticket for the broken login", ("create_ticket",)),
        ("read README.md and tell me what the project does", ("Read",)),
        ("Why does the login page crash?", ("Grep", "Read")),
        ("Search the web for the newest release of Django", ("WebSearch",)),
        ("add a dark mode to the settings page", ("Grep", "Read", "Edit")),
        ("look at the weather forecast for Rome and mail it to Ida", ("get_forecast", "send_mail")),
    ),
)

FIFTEEN_REPORTED: Final = SmallSet(
    "fifteen, another coding agent with shop tools",
    {
        "view": "Shows a file or the entries of a directory, with line numbers.",
        "create": "Creates a new file with the given content.",
        "str_replace": "Replaces a piece of text in a file by another; the text must be unique.",
        "shell": "Runs a shell command in the workspace and returns its output.",
        "search_code": "Searches the workspace for a text or a regular expression.",
        "list_dir": "Lists the files and folders of a directory.",
        "fetch_page": "Downloads a web page and returns its text as Markdown.",
        "ask_user": "Asks the user a question and waits for the answer.",
        "update_plan": "Updates the plan: steps, and which of them are done.",
        "get_diagnostics": "Returns the errors and warnings of the language server for a file.",
        "find_order": "Finds an order of the shop by its number or by the name of the customer.",
        "refund_payment": "Refunds a payment of an order to the customer, in full or in part.",
        "track_parcel": "Tells where a parcel is and when it will be delivered.",
        "post_message": "Posts a message to a channel of the team chat.",
        "stock_level": "Tells how many pieces of a product are in each warehouse.",
    },
    {},
    (
        (
            "rename the method getUser to fetchUser in the whole project",
            ("search_code", "view", "str_replace"),
        ),
        ("the unit tests are red, make them green", ("shell", "view", "str_replace")),
        ("Where is the parcel of order 4711?", ("find_order", "track_parcel")),
        ("refund the payment of order 1234 to the customer", ("refund_payment",)),
        ("how many pieces of the blue chair are in the warehouse in Graz?", ("stock_level",)),
        ("Post a message to the team channel that the deployment starts", ("post_message",)),
        ("why is the import in main.py underlined?", ("get_diagnostics", "view")),
        ("write a script that removes old log files", ("create", "shell")),
        ("which files are in the folder docs?", ("list_dir",)),
        ("update the copyright year everywhere", ("search_code", "str_replace")),
        ("read https://example.org/changes and list what is new", ("fetch_page",)),
        ("find the order of Mrs Novak and tell the support channel", ("find_order", "post_message")),
    ),
)

FIFTEEN_THIRD: Final = SmallSet(
    "fifteen, an office assistant",
    {
        "search_files": "Searches the documents of the company by words and by author.",
        "open_document": "Opens a document and returns its text.",
        "write_document": "Creates a document or replaces the text of one.",
        "run_python": "Runs Python code in a sandbox and returns what it prints.",
        "make_chart": "Draws a chart from a table of numbers.",
        "book_room": "Books a meeting room for a day and a time.",
        "find_colleague": "Finds a colleague by name: telephone number, department and office.",
        "request_holiday": "Files a request for days of holiday.",
        "order_supplies": "Orders office supplies such as paper, pens and toner.",
        "translate_text": "Translates a text into another language.",
        "read_invoice": "Reads the amount, the date and the sender of an invoice.",
        "pay_invoice": "Pays an invoice by bank transfer.",
        "schedule_interview": "Schedules a job interview with an applicant.",
        "report_fault": "Reports a fault in the building, such as a broken lamp or a leaking tap.",
        "list_trains": "Lists train connections between two cities.",
    },
    {},
    (
        ("book a meeting room for Thursday at ten", ("book_room",)),
        ("what is the telephone number of our colleague Anna Weber?", ("find_colleague",)),
        ("please order paper and toner for the office", ("order_supplies",)),
        ("file a request for five days of holiday in May", ("request_holiday",)),
        ("the lamp in my office is broken", ("report_fault",)),
        ("read this invoice and pay it", ("read_invoice", "pay_invoice")),
        ("compare last year's figures with this year's", ("search_files", "open_document", "run_python")),
        (
            "find the contract with Nordbank and translate it into French",
            ("search_files", "open_document", "translate_text"),
        ),
        ("draw a chart from these numbers", ("make_chart",)),
        ("which trains go from Graz to Vienna tomorrow morning?", ("list_trains",)),
        ("shorten the report on the new branch", ("search_files", "open_document", "write_document")),
        ("Mr Huber has applied for the job, invite him", ("schedule_interview",)),
    ),
)
